// Library for LD_PRELOAD that shifts the wall clock of a program by the seconds (int64) in the file
// DOTRESIZE_CLOCK_FILE. The number may change at any time, as if somebody had set the clock. Clocks
// that nobody can set do not change, and neither does the kernel's: waits until a time of the wall
// clock are passed on in the kernel's time.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

/// Threshold above which a time is of the wall clock and not of a clock since the machine's start.
constexpr time_t kLeastWallTime = 1'000'000'000;

int64_t offset() {
  static const volatile int64_t* const shared = [] {
    const char* const file = std::getenv("DOTRESIZE_CLOCK_FILE");
    const int opened = file == nullptr ? -1 : ::open(file, O_RDONLY | O_CLOEXEC);
    if (opened < 0) return static_cast<const volatile int64_t*>(nullptr);
    void* const mapped = ::mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, opened, 0);
    ::close(opened);
    return mapped == MAP_FAILED ? nullptr : static_cast<const volatile int64_t*>(mapped);
  }();
  return shared == nullptr ? 0 : *shared;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// Converts a time of the wall clock to the kernel's; leaves other times unchanged.
timespec kernel_time(const timespec& time) {
  timespec result = time;
  if (time.tv_sec > kLeastWallTime) result.tv_sec -= offset();
  return result;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const real = next<int(clockid_t, timespec*)>("clock_gettime");
  const int result = real(clock, time);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += offset();
  return result;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* result) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  static auto* const real =
      next<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  const timespec time = kernel_time(*until);
  return real(condition, mutex, &time);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  static auto* const real =
      next<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>(
          "pthread_cond_clockwait");
  const timespec time = kernel_time(*until);
  return real(condition, mutex, clock, &time);
}

int sem_timedwait(sem_t* semaphore, const timespec* until) {
  static auto* const real = next<int(sem_t*, const timespec*)>("sem_timedwait");
  const timespec time = kernel_time(*until);
  return real(semaphore, &time);
}

/// Needed for Abseil's locks, which wait by futex.
long syscall(long number, ...) noexcept {
  static auto* const real = next<long(long, ...)>("syscall");
  va_list rest;
  va_start(rest, number);
  long given[6];
  for (long& argument : given) argument = va_arg(rest, long);
  va_end(rest);
  timespec time{};
  if (number == SYS_futex && (given[1] & FUTEX_CLOCK_REALTIME) != 0 && given[3] != 0) {
    time = kernel_time(*reinterpret_cast<const timespec*>(given[3]));
    given[3] = reinterpret_cast<long>(&time);
  }
  return real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

}  // extern "C"
