// add_l1_cost against its peers, in one process: at::cdist (p = 1) and the loop anyone would write.
// All report pairs/s, where n tokens of d channels are n·d²/2 pairs: what the cost needs, not what
// a peer spends. Threads: OMP_NUM_THREADS.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <cmath>

#include "worker/kernels/l1_cost.h"

namespace {

at::Tensor activations(const benchmark::State& state) {
  at::manual_seed(1);
  return at::randn({state.range(1), state.range(0)});
}

void count_pairs(benchmark::State& state) {
  const auto width = static_cast<double>(state.range(0));
  const auto tokens = static_cast<double>(state.range(1));
  state.counters["pairs/s"] =
      benchmark::Counter(tokens * width * width / 2, benchmark::Counter::kIsIterationInvariantRate);
}

void add_l1_cost(benchmark::State& state) {
  const at::Tensor x = activations(state);
  at::Tensor cost = at::zeros({x.size(1), x.size(1)}, at::kDouble);
  for (auto _ : state) dotresize::add_l1_cost(x, cost);
  count_pairs(state);
}

void cdist(benchmark::State& state) {
  const at::Tensor channels = activations(state).t().contiguous();
  for (auto _ : state) benchmark::DoNotOptimize(at::cdist(channels, channels, /*p=*/1.0));
  count_pairs(state);
}

void plain_loop(benchmark::State& state) {
  const at::Tensor x = activations(state);
  const int64_t width = x.size(1);
  at::Tensor cost = at::zeros({width, width}, at::kDouble);
  const float* values = x.const_data_ptr<float>();
  double* sums = cost.data_ptr<double>();
  for (auto _ : state) {
    for (int64_t t = 0; t < x.size(0); ++t) {
      const float* token = values + t * width;
      for (int64_t i = 0; i < width; ++i) {
        for (int64_t j = i; j < width; ++j) sums[i * width + j] += std::abs(token[i] - token[j]);
      }
    }
    benchmark::ClobberMemory();
  }
  count_pairs(state);
}

BENCHMARK(add_l1_cost)->Args({256, 32768})->Args({1024, 8192})->UseRealTime();
BENCHMARK(cdist)->Args({256, 8192})->Args({1024, 1024})->UseRealTime();
BENCHMARK(plain_loop)->Args({256, 4096})->Args({1024, 512})->UseRealTime();

}  // namespace
