// add_l1_cost against its peers, in one process: at::cdist (p = 1), the loop anyone would write,
// and what the processor could do at most. All report pairs/s, where n tokens of d channels are
// n·d²/2 pairs: what the cost needs, not what a peer spends; "cpu_pairs/s" counts the time that all
// threads spent together, which others on the machine cannot lengthen. Threads: OMP_NUM_THREADS.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include <cmath>
#include <ctime>

#include "worker/kernels/l1_cost.h"
#include "worker/kernels/max_add_limit.h"

namespace {

double cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Runs `step`, which does so many pairs, for as long as the benchmark asks.
template <class Step>
void run(benchmark::State& state, double pairs, const Step& step) {
  step();
  const double start = cpu_seconds();
  for (auto _ : state) step();
  const double total = pairs * static_cast<double>(state.iterations());
  state.counters["pairs/s"] = benchmark::Counter(total, benchmark::Counter::kIsRate);
  state.counters["cpu_pairs/s"] = total / (cpu_seconds() - start);
}

double needed_pairs(const benchmark::State& state) {
  const auto width = static_cast<double>(state.range(0));
  return static_cast<double>(state.range(1)) * width * width / 2;
}

/// [tokens, width] from the standard normal distribution, and channels with means of their own of
/// `spread` standard deviations.
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

/// Cells nearly all of which are summed a second time.
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

void max_add_limit(benchmark::State& state) {
  constexpr size_t kRounds = 1 << 18;
  std::vector<double> pairs(static_cast<size_t>(at::get_num_threads()));
  const auto all_threads = [&] {
    at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        pairs[static_cast<size_t>(i)] = static_cast<double>(dotresize::run_max_add_limit(kRounds));
      }
    });
  };
  all_threads();
  double total = 0.0;
  for (const double done : pairs) total += done;
  run(state, total, all_threads);
}

BENCHMARK(max_add_limit)->UseRealTime();
BENCHMARK(add_l1_cost)
    ->Args({256, 16384})
    ->Args({1024, 4096})
    ->Args({4096, 1024})
    ->Args({8192, 512})
    ->UseRealTime();
BENCHMARK(add_l1_cost_far_means)->Args({1024, 4096})->UseRealTime();
BENCHMARK(cdist)
    ->Args({256, 4096})
    ->Args({1024, 512})
    ->Args({4096, 256})
    ->Args({8192, 128})
    ->UseRealTime();
BENCHMARK(plain_loop)->Args({1024, 128})->Args({4096, 16})->Args({8192, 8})->UseRealTime();

}  // namespace
