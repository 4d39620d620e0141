#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

// Attributes by which clang checks, without running the program, that what a mutex guards is used
// under its lock alone; scripts/lint.sh has it do so. Abseil has taken the short names.
#if defined(__clang__)
#define DOTRESIZE_LOCKS(...) __attribute__((__VA_ARGS__))
#else
#define DOTRESIZE_LOCKS(...)
#endif
#define DOTRESIZE_GUARDED_BY(mutex) DOTRESIZE_LOCKS(guarded_by(mutex))
#define DOTRESIZE_REQUIRES(mutex) DOTRESIZE_LOCKS(requires_capability(mutex))
/// Marks functions whose use of locks clang does not understand.
#define DOTRESIZE_UNCHECKED_LOCKS DOTRESIZE_LOCKS(no_thread_safety_analysis)

namespace dotresize {

class DOTRESIZE_LOCKS(capability("mutex")) Mutex {
 private:
  friend class Lock;

  std::mutex mutex_;
};

/// Holds a mutex for its lifetime, apart from the time between unlock() and lock().
class DOTRESIZE_LOCKS(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) DOTRESIZE_LOCKS(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  ~Lock() DOTRESIZE_LOCKS(release_capability()) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() DOTRESIZE_LOCKS(acquire_capability()) { lock_.lock(); }
  void unlock() DOTRESIZE_LOCKS(release_capability()) { lock_.unlock(); }

 private:
  friend class Condition;

  std::unique_lock<std::mutex> lock_;
};

/// Lets threads wait until others notify them. A condition `is_met` is asked under the lock.
class Condition {
 public:
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

  /// Waits until `is_met`, or until a stop is requested. Returns is_met().
  template <class IsMet>
  bool wait(Lock& lock, const std::stop_token& stop, const IsMet& is_met) {
    return condition_.wait(lock.lock_, stop, is_met);
  }
  /// Version that waits at most for this time.
  template <class IsMet>
  bool wait_for(Lock& lock, const std::stop_token& stop, std::chrono::milliseconds at_most,
                const IsMet& is_met) {
    return condition_.wait_for(lock.lock_, stop, at_most, is_met);
  }
  template <class IsMet>
  bool wait_for(Lock& lock, std::chrono::milliseconds at_most, const IsMet& is_met) {
    return condition_.wait_for(lock.lock_, at_most, is_met);
  }
  /// Waits for a notification.
  void wait_for(Lock& lock, std::chrono::milliseconds at_most) {
    condition_.wait_for(lock.lock_, at_most);
  }

 private:
  std::condition_variable_any condition_;
};

}  // namespace dotresize
