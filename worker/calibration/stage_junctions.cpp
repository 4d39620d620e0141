#include "worker/calibration/stage_junctions.h"

#include <algorithm>

namespace dotresize {
namespace {

CostPrecision sampled_precision(const CalibrationJob& job, const JunctionSetup& setup,
                                const at::Tensor& x, const at::Tensor& rotation) {
  if (!job.tries_half_costs()) return {};
  return CostPrecision::from_half_error(half_cost_error(setup, x, rotation));
}

}  // namespace

StageJunction* StageJunctions::find(int64_t junction) {
  const int64_t index = junction - first;
  const bool ours = index >= 0 && index < static_cast<int64_t>(junctions.size());
  return ours ? &junctions[static_cast<size_t>(index)] : nullptr;
}

StageJunctions make_stage_junctions(const CalibrationJob& job, const RankShard& shard,
                                    PhaseClock& clock) {
  StageJunctions stage;
  stage.first = shard.first_sublayer == 0 ? 0 : shard.first_sublayer + 1;
  const int64_t end = std::min(shard.end_sublayer + 1, job.mapped_junctions());
  for (int64_t junction = stage.first; junction < end; ++junction) {
    stage.junctions.push_back({{junction, job.config.hidden_size, job.map, clock, job.device}});
  }
  return stage;
}

void add_in_first_pass(const CalibrationJob& job, StageJunction& junction, const at::Tensor& x) {
  const JunctionSetup& setup = junction.setup;
  if (!junction.first) {
    junction.first.emplace(setup, setup.costs_in_first_pass() ? sampled_precision(job, setup, x, {})
                                                              : CostPrecision{});
  }
  junction.first->add(x);
}

void add_in_second_pass(const CalibrationJob& job, StageJunction& junction, const at::Tensor& x) {
  if (!junction.second) {
    junction.second.emplace(junction.setup, junction.rotation,
                            sampled_precision(job, junction.setup, x, junction.rotation));
  }
  junction.second->add(x);
}

}  // namespace dotresize
