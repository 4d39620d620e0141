#include "worker/calibration/stage_junctions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "worker/maps/map_algorithm.h"

namespace dotresize {
namespace {

CostPrecision sampled_precision(const CalibrationJob& job, const JunctionSetup& setup,
                                const at::Tensor& x, const at::Tensor& rotation) {
  if (!job.tries_half_costs()) return {};
  return CostPrecision::from_half_error(half_cost_error(setup, x, rotation));
}

/// That of this rank's first junction of the group, but for the name in errors.
JunctionSetup group_setup(JunctionSetup setup, int64_t first_junction) {
  setup.junction = first_junction;
  return setup;
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

SharedMap::SharedMap(Communicator& comm, const ShardPlan& plan, int64_t first, int64_t end,
                     std::vector<StageJunction*> mine)
    : comm_(comm),
      owner_(plan.owner_of_junction(first)),
      last_rank_(plan.owner_of_junction(end - 1)),
      mine_(std::move(mine)),
      setup_(group_setup(mine_.front()->setup, first)) {}

void SharedMap::decompose(int64_t tokens) {
  FirstPass sum(setup_, {});
  for (const StageJunction* junction : mine_) sum.add_scaled(*junction->first, tokens);
  reduce(sum.sums());
  if (owner()) group_.emplace(std::move(sum).finish(tokens));
  if (!needs_second_pass(setup_.map)) return;

  rotation_ = owner() ? group_->rotation().contiguous()
                      : at::empty({setup_.hidden_size, setup_.hidden_size},
                                  at::dtype(at::kFloat).device(setup_.device));
  broadcast(rotation_);
  for (StageJunction* junction : mine_) junction->rotation = rotation_;
}

void SharedMap::solve(int64_t width, int64_t tokens) {
  std::optional<SecondPass> sum;
  if (needs_second_pass(setup_.map)) {
    sum.emplace(setup_, rotation_, CostPrecision{});
    for (const StageJunction* junction : mine_) {
      sum->costs().add_scaled(junction->second->costs(),
                              1.0 / std::sqrt(junction->first->mean_square(tokens)));
    }
    reduce(sum->costs().sums());
  }
  if (owner()) {
    solution_ = std::move(*group_).solve(width, std::move(sum));
  } else {
    const auto on_device = at::device(setup_.device);
    solution_.map.M = at::empty({setup_.hidden_size, width}, on_device.dtype(at::kDouble));
    solution_.map.M_inv = at::empty({width, setup_.hidden_size}, on_device.dtype(at::kDouble));
    solution_.support = at::empty({width}, on_device.dtype(at::kLong));
  }
  broadcast(solution_.map.M);
  broadcast(solution_.map.M_inv);
  broadcast(solution_.support);
  broadcast_diagnostics();
}

JunctionSolution SharedMap::solution_for(StageJunction& junction) const {
  return std::move(*junction.first).describe(solution_, junction.second);
}

void SharedMap::reduce(const std::vector<at::Tensor>& sums) {
  for (at::Tensor sum : sums) {
    if (!owner()) {
      comm_.send(sum, owner_)->wait();
      continue;
    }
    at::Tensor part = at::empty_like(sum);
    for (int rank = owner_ + 1; rank <= last_rank_; ++rank) {
      comm_.receive(part, rank)->wait();
      sum += part;
    }
  }
}

void SharedMap::broadcast(at::Tensor& tensor) {
  if (!owner()) return comm_.receive(tensor, owner_)->wait();
  std::vector<std::unique_ptr<Transfer>> sending;
  for (int rank = owner_ + 1; rank <= last_rank_; ++rank) {
    sending.push_back(comm_.send(tensor, rank));
  }
  for (const auto& transfer : sending) transfer->wait();
}

void SharedMap::broadcast_diagnostics() {
  MapDiagnostics& diagnostics = solution_.diagnostics;
  at::Tensor values = at::tensor(
      {static_cast<double>(diagnostics.sinkhorn_iterations), diagnostics.sinkhorn_violation,
       diagnostics.sinkhorn_converged ? 1.0 : 0.0, diagnostics.qr_condition},
      at::kDouble);
  broadcast(values);
  diagnostics.sinkhorn_iterations = static_cast<int64_t>(values[0].item<double>());
  diagnostics.sinkhorn_violation = values[1].item<double>();
  diagnostics.sinkhorn_converged = values[2].item<double>() != 0.0;
  diagnostics.qr_condition = values[3].item<double>();
}

std::vector<std::unique_ptr<SharedMap>> make_shared_maps(Communicator& comm,
                                                         const CalibrationJob& job,
                                                         StageJunctions& stage) {
  std::vector<std::unique_ptr<SharedMap>> maps;
  const int64_t mapped = job.mapped_junctions();
  for (int64_t first = 0, end = 1; first < mapped; first = end, end = first + 1) {
    while (end < mapped && job.shares_map(end - 1)) ++end;
    std::vector<StageJunction*> mine;
    for (int64_t junction = first; junction < end; ++junction) {
      if (StageJunction* found = stage.find(junction)) mine.push_back(found);
    }
    if (end - first == 1 || mine.empty()) continue;
    maps.push_back(std::make_unique<SharedMap>(comm, job.plan, first, end, mine));
    for (StageJunction* junction : mine) junction->shared = maps.back().get();
  }
  return maps;
}

}  // namespace dotresize
