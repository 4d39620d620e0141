#include "server/common/memory_wait.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <new>
#include <thread>
#include <vector>

namespace dotresize {
namespace {

using namespace std::chrono_literals;

constexpr size_t kLarge = size_t{64} << 20;

size_t address_space() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

/// Address space of this process with less than kLarge to spare, while it exists.
class Full {
 public:
  Full() {
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit limit{address_space() + kLarge / 2, before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~Full() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

TEST(MemoryWait, CodeThatRefusesIsToldAtOnce) {
  wait_for_memory();
  const Full full;
  const RefusesWithoutMemory refuses;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(std::vector<char>(kLarge, 'x'), std::bad_alloc);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

TEST(MemoryWait, OtherCodeGetsMemoryWhenThereIsSome) {
  wait_for_memory();
  std::future<size_t> allocated;
  {
    const Full full;
    const RefusesWithoutMemory of_this_thread;
    allocated = std::async(std::launch::async, [] {
      const RefusesWithoutMemory refuses;
      const RefusesWithoutMemory waits(false);
      return std::vector<char>(kLarge, 'x').size();
    });
    EXPECT_EQ(allocated.wait_for(200ms), std::future_status::timeout);
  }
  EXPECT_EQ(allocated.get(), kLarge);
}

}  // namespace
}  // namespace dotresize
