#include "worker/run/cost_rate.h"

#include "worker/device/gpu_limits.h"
#include "worker/kernels/l1_cost_limit.h"

namespace dotresize {

std::optional<CostReport> cost_report(const PhaseClock& clock, const ChosenDevice& device) {
  const auto pairs = clock.work().find("cost");
  if (pairs == clock.work().end()) return std::nullopt;
  const double limit = device.cuda
                           ? l1_cost_limit(device.cuda->info(device.device.index()), at::kFloat)
                           : measure_l1_cost_limit();
  return CostReport{pairs->second, clock.seconds().at("cost"), limit};
}

}  // namespace dotresize
