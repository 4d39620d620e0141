#include "worker/commands/run/cost_rate.h"

#include "worker/cuda/gpu_limits.h"

namespace dotresize {

namespace {

double work_of(const PhaseClock& clock, const char* kind) {
  const auto found = clock.work().find(kind);
  return found == clock.work().end() ? 0.0 : found->second;
}

/// Of pairs in both precisions together: the time that they need at least divides them.
double limit_of_gpu(const GpuInfo& gpu, double float32_pairs, double float16_pairs) {
  return (float32_pairs + float16_pairs) / (float32_pairs / l1_cost_limit(gpu, at::kFloat) +
                                            float16_pairs / l1_cost_limit(gpu, at::kHalf));
}

}  // namespace

std::optional<CostReport> cost_report(const PhaseClock& clock, const ChosenDevice& device) {
  const double float32_pairs = work_of(clock, "cost");
  const double float16_pairs = work_of(clock, "cost_float16");
  const double pairs = float32_pairs + float16_pairs;
  if (pairs == 0.0) return std::nullopt;
  CostReport report{pairs, clock.seconds().at("cost")};
  if (device.cuda) {
    report.limit_pairs_per_s =
        limit_of_gpu(device.cuda->info(device.device.index()), float32_pairs, float16_pairs);
  }
  return report;
}

}  // namespace dotresize
