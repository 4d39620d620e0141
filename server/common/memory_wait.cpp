#include "server/common/memory_wait.h"

#include <chrono>
#include <new>
#include <thread>
#include <utility>

namespace dotresize {
namespace {

constexpr std::chrono::milliseconds kPause{10};
constexpr int kPauses = 1000;

thread_local bool refuses_at_once = false;
thread_local int pauses = 0;  ///< number since memory was last refused

/// Operator new calls it again and again until there is memory.
void handle_failure() {
  if (refuses_at_once || ++pauses > kPauses) {
    pauses = 0;
    throw std::bad_alloc();
  }
  std::this_thread::sleep_for(kPause);
}

}  // namespace

void wait_for_memory() { std::set_new_handler(handle_failure); }

RefusesWithoutMemory::RefusesWithoutMemory(bool refuses)
    : before_(std::exchange(refuses_at_once, refuses)) {}

RefusesWithoutMemory::~RefusesWithoutMemory() { refuses_at_once = before_; }

}  // namespace dotresize
