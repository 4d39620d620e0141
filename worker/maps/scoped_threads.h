#pragma once

#include <ATen/Parallel.h>

namespace dotresize {

/// As long as it lives, libtorch computes with so many threads; 0 changes nothing.
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
