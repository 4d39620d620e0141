#pragma once

#include <ATen/Parallel.h>

namespace dotresize {

/// Sets libtorch's number of threads for the lifetime of the object; 0: no change.
class ScopedThreads {
 public:
  explicit ScopedThreads(int threads) : before_(at::get_num_threads()) {
    if (threads != 0 && threads != before_) at::set_num_threads(threads);
  }
  ~ScopedThreads() {
    if (at::get_num_threads() != before_) at::set_num_threads(before_);
  }
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  int before_;
};

}  // namespace dotresize
