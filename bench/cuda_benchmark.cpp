// Benchmarks of the GPU kernels. The l1 cost is compared with at::cdist (p = 1) on the GPU and with
// the peak rate of its units; a Sinkhorn iteration with a copy of the kernel matrix. Without a GPU
// the program says so and exits with 0.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "worker/cuda/cuda_module.h"
#include "worker/kernels/l1_cost.h"
#include "worker/kernels/sinkhorn.h"

namespace {

using dotresize::CudaModule;
using dotresize::open_cuda_module;

double seconds_between(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

/// Runs the work for as long as the benchmark asks. Returns the mean seconds of one run.
template <typename Work>
double time(benchmark::State& state, const Work& work) {
  const CudaModule& cuda = open_cuda_module();
  work();
  cuda.synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) {
    work();
    cuda.synchronize();
  }
  return seconds_between(start) / static_cast<double>(state.iterations());
}

/// Number of pairs: n tokens of d channels are n·d²/2 pairs.
double pairs_of(const at::Tensor& x) {
  return static_cast<double>(x.numel()) * static_cast<double>(x.size(1)) / 2;
}

/// Pairs a second of at::cdist on the same GPU, for at most 2048 of the tokens.
double cdist_pairs_per_second(const at::Tensor& x) {
  const CudaModule& cuda = open_cuda_module();
  const at::Tensor tokens = x.narrow(0, 0, std::min<int64_t>(x.size(0), 2048));
  const at::Tensor channels = tokens.t().contiguous();
  const auto run = [&] {
    benchmark::DoNotOptimize(at::cdist(channels, channels, /*p=*/1.0));
    cuda.synchronize();
  };
  run();
  const auto start = std::chrono::steady_clock::now();
  run();
  return pairs_of(tokens) / seconds_between(start);
}

at::Tensor activations(const benchmark::State& state) {
  at::manual_seed(1);
  return at::randn({state.range(1), state.range(0)}).cuda();
}

void l1_cost(benchmark::State& state) {
  const at::Tensor x = activations(state);
  at::Tensor cost = at::zeros({x.size(1), x.size(1)}, x.options().dtype(at::kDouble));
  const double rate = pairs_of(x) / time(state, [&] { dotresize::add_l1_cost(x, cost); });
  state.counters["pairs/s"] = rate;
  state.counters["of_limit"] = rate / dotresize::l1_cost_limit(open_cuda_module().info(0));
  state.counters["times_cdist"] = rate / cdist_pairs_per_second(x);
}

constexpr int64_t kIterations = 20;

at::Tensor transport_cost(const benchmark::State& state) {
  at::manual_seed(1);
  return at::rand({state.range(0), state.range(0) * 4 / 5}, at::kDouble).cuda();
}

/// Counts iterations as items, and one read of the kernel matrix per iteration as bytes.
void count_reads(benchmark::State& state, const at::Tensor& cost, int64_t iterations) {
  state.SetItemsProcessed(state.iterations() * iterations);
  state.SetBytesProcessed(state.iterations() * iterations * static_cast<int64_t>(cost.nbytes()));
}

void sinkhorn(benchmark::State& state) {
  const at::Tensor cost = transport_cost(state);
  time(state, [&] {
    benchmark::DoNotOptimize(dotresize::sinkhorn(
        cost, {.lambda = 0.1, .tolerance = 0.0, .max_iterations = kIterations}));
  });
  count_reads(state, cost, kIterations);
}

/// A copy reads and writes, so its bytes count twice.
void device_copy(benchmark::State& state) {
  const at::Tensor cost = transport_cost(state);
  at::Tensor copy = at::empty_like(cost);
  time(state, [&] { copy.copy_(cost); });
  count_reads(state, cost, 2);
}

void register_all() {
  const auto on_gpu = [](auto* registered) {
    registered->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  on_gpu(benchmark::RegisterBenchmark("l1_cost", l1_cost)->Args({4096, 8192})->Args({8192, 8192}));
  on_gpu(benchmark::RegisterBenchmark("sinkhorn", sinkhorn)->Args({4096})->Args({8192}));
  on_gpu(benchmark::RegisterBenchmark("device copy", device_copy)->Args({4096})->Args({8192}));
}

}  // namespace

int main(int argc, char** argv) {
  if (const std::string reason = dotresize::ask_driver().fault; !reason.empty()) {
    std::printf("cuda_benchmark: nothing to measure: %s\n", reason.c_str());
    return 0;
  }
  open_cuda_module().use(0);
  benchmark::Initialize(&argc, argv);
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
