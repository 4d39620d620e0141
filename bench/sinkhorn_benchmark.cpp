// Compares one Sinkhorn iteration with a copy of a matrix of the same size, and with an iteration
// in the log domain, in one process. d channels, k = 0.8·d columns, lambda = 0.1. An iteration
// reads K once; a copy reads and writes as much. "GB/s" counts the bytes that each has to move.
// Threads: OMP_NUM_THREADS.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "worker/kernels/sinkhorn.h"

namespace {

constexpr double kLambda = 0.1;

int64_t columns(int64_t d) { return d * 4 / 5 / 64 * 64; }

/// Returns the cost between channels with 50 tokens each; the largest entry is 1.
at::Tensor cost(const benchmark::State& state) {
  at::manual_seed(1);
  const int64_t d = state.range(0);
  const at::Tensor channels = at::randn({d, 50}, at::kDouble);
  const at::Tensor cost = at::cdist(channels, channels.narrow(0, 0, columns(d)), /*p=*/1.0);
  return cost / cost.max();
}

double matrix_bytes(const benchmark::State& state) {
  return 8.0 * static_cast<double>(state.range(0)) * static_cast<double>(columns(state.range(0)));
}

void count_bytes(benchmark::State& state, double bytes) {
  state.counters["GB/s"] =
      benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

/// Seconds of the fastest of three runs. The benchmark subtracts such times, so their noise would
/// not cancel.
double seconds_of(const at::Tensor& c, int64_t iterations) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 3; ++run) {
    const auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(dotresize::sinkhorn(
        c, {.lambda = kLambda, .tolerance = 0.0, .max_iterations = iterations}));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fastest = std::min(fastest, seconds.count());
  }
  return fastest;
}

/// Measures the mean of 40 iterations. "start_ms" is the rest of a run: the first iteration, in the
/// log domain, and the plan.
void sinkhorn_iteration(benchmark::State& state) {
  constexpr int64_t kIterations = 40;
  const at::Tensor c = cost(state);
  double start = std::numeric_limits<double>::infinity();
  for (auto _ : state) {
    const double one = seconds_of(c, 1);
    start = std::min(start, one);
    state.SetIterationTime((seconds_of(c, 1 + kIterations) - one) / kIterations);
  }
  state.counters["start_ms"] = 1e3 * start;
  count_bytes(state, matrix_bytes(state));
}

void copy(benchmark::State& state) {
  const at::Tensor from = cost(state);
  at::Tensor to = at::zeros_like(from);
  for (auto _ : state) benchmark::DoNotOptimize(to.copy_(from));
  count_bytes(state, 2 * matrix_bytes(state));
}

/// Runs one iteration as two logsumexp, with torch.
void log_domain_iteration(benchmark::State& state) {
  const at::Tensor kernel = -cost(state) / kLambda;
  at::Tensor beta = at::zeros({1, kernel.size(1)}, at::kDouble);
  for (auto _ : state) {
    const at::Tensor alpha = -(kernel + beta).logsumexp(1, /*keepdim=*/true);
    beta = -(kernel + alpha).logsumexp(0, /*keepdim=*/true);
  }
  count_bytes(state, matrix_bytes(state));
}

BENCHMARK(copy)->Arg(1024)->Arg(4096)->Arg(8192)->UseRealTime();
BENCHMARK(sinkhorn_iteration)->Arg(1024)->Arg(4096)->Arg(8192)->UseManualTime()->Iterations(1);
BENCHMARK(log_domain_iteration)->Arg(1024)->Arg(4096)->Arg(8192)->UseRealTime()->Iterations(1);

}  // namespace
