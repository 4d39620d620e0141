#include "worker/calibration/shared_map.h"

#include <ATen/ATen.h>

#include <cmath>
#include <memory>
#include <utility>

namespace dotresize {

SharedMap::SharedMap(Communicator& comm, const ShardPlan& plan, int64_t first, int64_t end,
                     int64_t width, const MapOptions& options, std::vector<JunctionEstimator*> mine,
                     PhaseClock& clock, at::Device device)
    : comm_(comm),
      first_(first),
      end_(end),
      owner_(plan.owner_of_junction(first)),
      last_member_(plan.owner_of_junction(end - 1)),
      mine_(std::move(mine)),
      group_(first, width, options, clock, device) {
  const auto on_device = at::device(device);
  solution_.map.M = at::empty({width, options.width}, on_device.dtype(at::kDouble));
  solution_.map.M_inv = at::empty({options.width, width}, on_device.dtype(at::kDouble));
  solution_.support = at::empty({options.width}, on_device.dtype(at::kLong));
}

void SharedMap::decompose(int64_t tokens) {
  for (const JunctionEstimator* junction : mine_) group_.add_first_sums(*junction, tokens);
  sum_at_owner(group_.first_sums());
  if (owner()) group_.decompose(tokens);
  if (!group_.needs_second_pass()) return;

  const int64_t width = solution_.map.M.size(0);
  at::Tensor rotation =
      owner() ? group_.rotation().contiguous()
              : at::empty({width, width}, solution_.map.M.options().dtype(at::kFloat));
  share(rotation);
  for (JunctionEstimator* junction : mine_) junction->set_rotation(rotation);
}

void SharedMap::solve(int64_t tokens) {
  if (group_.needs_second_pass()) {
    for (const JunctionEstimator* junction : mine_) group_.add_second_sums(*junction, tokens);
    sum_at_owner(group_.second_sums());
  }
  if (owner()) solution_ = group_.solve(tokens);
  share(solution_.map.M);
  share(solution_.map.M_inv);
  share(solution_.support);
  share_diagnostics();
}

JunctionSolution SharedMap::solution_for(JunctionEstimator& junction) const {
  JunctionSolution solution = solution_;
  junction.describe(solution);
  return solution;
}

void SharedMap::sum_at_owner(std::vector<at::Tensor> sums) {
  for (at::Tensor& sum : sums) {
    if (!owner()) {
      comm_.send(sum, owner_)->wait();
      continue;
    }
    at::Tensor part = at::empty_like(sum);
    for (int member = owner_ + 1; member <= last_member_; ++member) {
      comm_.receive(part, member)->wait();
      sum += part;
    }
  }
}

void SharedMap::share(at::Tensor& tensor) {
  if (!owner()) return comm_.receive(tensor, owner_)->wait();
  std::vector<std::unique_ptr<Transfer>> sending;
  for (int member = owner_ + 1; member <= last_member_; ++member) {
    sending.push_back(comm_.send(tensor, member));
  }
  for (const auto& transfer : sending) transfer->wait();
}

void SharedMap::share_diagnostics() {
  MapDiagnostics& diagnostics = solution_.diagnostics;
  at::Tensor values = at::tensor(
      {static_cast<double>(diagnostics.sinkhorn_iterations), diagnostics.sinkhorn_violation,
       diagnostics.sinkhorn_converged ? 1.0 : 0.0, diagnostics.qr_condition},
      at::kDouble);
  share(values);
  diagnostics.sinkhorn_iterations = static_cast<int64_t>(values[0].item<double>());
  diagnostics.sinkhorn_violation = values[1].item<double>();
  diagnostics.sinkhorn_converged = values[2].item<double>() != 0.0;
  diagnostics.qr_condition = values[3].item<double>();
}

}  // namespace dotresize
