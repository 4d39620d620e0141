#pragma once

#include <ATen/Parallel.h>

#include <atomic>
#include <cstdint>

#ifndef _OPENMP
#error "at::parallel_for runs on one thread unless this file is compiled with -fopenmp"
#endif

namespace dotresize {

/// Calls function(n) for n in 0 .. count-1 on all threads of at::parallel_for. Each thread takes
/// the next n when it is free, because work items and threads on a shared machine differ in speed.
template <class Function>
void parallel_for_each(int64_t count, const Function& function) {
  std::atomic<int64_t> next{0};
  at::parallel_for(0, at::get_num_threads(), /*grain_size=*/1, [&](int64_t, int64_t) {
    for (int64_t n = next++; n < count; n = next++) function(n);
  });
}

}  // namespace dotresize
