#include "worker/kernels/l1_cost_limit.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "worker/kernels/max_add_limit.h"
#include "worker/kernels/parallel_for_each.h"

namespace dotresize {
namespace {

constexpr size_t kRounds = size_t{1} << 16;  // about half a millisecond
constexpr int kRuns = 8;

double pairs_per_second_of_one_run() {
  const auto start = std::chrono::steady_clock::now();
  const double pairs = run_l1_cost_limit(kRounds);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return pairs / seconds.count();
}

}  // namespace

double run_l1_cost_limit(size_t rounds) {
  std::atomic<size_t> pairs{0};
  parallel_for_each(at::get_num_threads(), [&](int64_t) { pairs += run_max_add_limit(rounds); });
  return static_cast<double>(pairs);
}

double measure_l1_cost_limit() {
  double fastest = 0.0;
  for (int run = 0; run < kRuns; ++run) {
    fastest = std::max(fastest, pairs_per_second_of_one_run());
  }
  return fastest;
}

}  // namespace dotresize
