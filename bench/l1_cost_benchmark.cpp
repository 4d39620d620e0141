// Compares add_l1_cost in one process with at::cdist (p = 1), with the obvious loop, and with the
// processor's upper limit. All report pairs/s: n tokens of d channels are n·d²/2 pairs, the number
// that the cost needs, whatever the implementation does. The limit is measured between the
// iterations, because clock rates and other load on a shared machine change. "of_limit" is the
// ratio of the two mean rates. Threads: OMP_NUM_THREADS.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>

#include "bench/max_add_limit.h"
#include "worker/kernels/l1_cost.h"
#include "worker/kernels/parallel_for_each.h"

namespace {

double seconds_of(const std::function<void()>& step) {
  const auto start = std::chrono::steady_clock::now();
  step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr size_t kLimitRounds = 1 << 20;  // about 10 ms

/// Runs the limit on as many threads as add_l1_cost uses. Returns the pairs of all threads.
double run_limit() {
  std::atomic<size_t> pairs{0};
  dotresize::parallel_for_each(
      at::get_num_threads(), [&](int64_t) { pairs += dotresize::run_max_add_limit(kLimitRounds); });
  return static_cast<double>(pairs);
}

/// Time for the limit as a fraction of the time for the benchmark.
constexpr double kLimitShare = 0.2;

/// Runs `step`, which does `pairs` pairs, for as long as the benchmark asks.
void run(benchmark::State& state, double pairs, const std::function<void()>& step) {
  step();
  double seconds = 0.0;
  double limit_seconds = 0.0;
  double done_at_limit = 0.0;
  for (auto _ : state) {
    const double now = seconds_of(step);
    state.SetIterationTime(now);
    seconds += now;
    while (limit_seconds < kLimitShare * seconds) {
      limit_seconds += seconds_of([&] { done_at_limit += run_limit(); });
    }
  }
  const double rate = pairs * static_cast<double>(state.iterations()) / seconds;
  const double limit = done_at_limit / limit_seconds;
  state.counters["pairs/s"] = rate;
  state.counters["limit_pairs/s"] = limit;
  state.counters["of_limit"] = rate / limit;
}

double needed_pairs(const benchmark::State& state) {
  const auto width = static_cast<double>(state.range(0));
  return static_cast<double>(state.range(1)) * width * width / 2;
}

/// Returns [tokens, width] from the standard normal distribution, plus channel means with standard
/// deviation `spread`.
at::Tensor activations(const benchmark::State& state, double spread = 0.0) {
  at::manual_seed(1);
  const at::Tensor means = spread * at::randn({state.range(0)});
  return (at::randn({state.range(1), state.range(0)}) + means).contiguous();
}

void l1_cost_of(benchmark::State& state, const at::Tensor& x) {
  at::Tensor cost = at::zeros({x.size(1), x.size(1)}, at::kDouble);
  run(state, needed_pairs(state), [&] { dotresize::add_l1_cost(x, cost); });
}

void add_l1_cost(benchmark::State& state) { l1_cost_of(state, activations(state)); }

/// Uses far means, with which nearly all cells are summed a second time.
void add_l1_cost_far_means(benchmark::State& state) { l1_cost_of(state, activations(state, 30.0)); }

void cdist(benchmark::State& state) {
  const at::Tensor channels = activations(state).t().contiguous();
  run(state, needed_pairs(state),
      [&] { benchmark::DoNotOptimize(at::cdist(channels, channels, /*p=*/1.0)); });
}

void plain_loop(benchmark::State& state) {
  const at::Tensor x = activations(state);
  const int64_t width = x.size(1);
  at::Tensor cost = at::zeros({width, width}, at::kDouble);
  const float* values = x.const_data_ptr<float>();
  double* sums = cost.data_ptr<double>();
  run(state, needed_pairs(state), [&] {
    at::parallel_for(0, width, /*grain_size=*/8, [&](int64_t begin, int64_t end) {
      for (int64_t t = 0; t < x.size(0); ++t) {
        const float* token = values + t * width;
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t j = i; j < width; ++j) sums[i * width + j] += std::abs(token[i] - token[j]);
        }
      }
    });
    benchmark::ClobberMemory();
  });
}

BENCHMARK(add_l1_cost)
    ->Args({256, 16384})
    ->Args({1024, 4096})
    ->Args({4096, 2048})
    ->Args({8192, 512})
    ->Args({8192, 2048})
    ->UseManualTime();
BENCHMARK(add_l1_cost_far_means)->Args({1024, 4096})->UseManualTime();
BENCHMARK(cdist)
    ->Args({256, 4096})
    ->Args({1024, 512})
    ->Args({4096, 256})
    ->Args({8192, 128})
    ->UseManualTime();
BENCHMARK(plain_loop)->Args({1024, 128})->Args({4096, 16})->Args({8192, 8})->UseManualTime();

}  // namespace
