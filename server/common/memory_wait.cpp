#include "server/common/memory_wait.h"

#include <chrono>
#include <new>
#include <thread>
#include <utility>

namespace dotresize {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{10};
constexpr std::chrono::seconds kGap{1};  // between two allocations that wait
constexpr std::chrono::seconds kPatience{10};

thread_local bool refuses_at_once = false;
thread_local Clock::time_point begin;  ///< first failure of the allocation that waits
thread_local Clock::time_point last;   ///< end of its last pause

/// Operator new calls it again and again until there is memory.
void handle_failure() {
  const Clock::time_point now = Clock::now();
  if (now - last > kGap) begin = now;
  if (refuses_at_once || now - begin > kPatience) throw std::bad_alloc();
  std::this_thread::sleep_for(kPause);
  last = Clock::now();
}

}  // namespace

void wait_for_memory() { std::set_new_handler(handle_failure); }

RefusesWithoutMemory::RefusesWithoutMemory(bool refuses)
    : before_(std::exchange(refuses_at_once, refuses)) {}

RefusesWithoutMemory::~RefusesWithoutMemory() { refuses_at_once = before_; }

}  // namespace dotresize
