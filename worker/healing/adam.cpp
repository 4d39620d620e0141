#include "worker/healing/adam.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "worker/maps/moments.h"

namespace dotresize {

void adam_step(AdamState& state, const at::Tensor& gradient, int64_t steps, double learning_rate) {
  constexpr double kBeta1 = 0.9;
  constexpr double kBeta2 = 0.999;
  constexpr double kEpsilon = 1e-8;
  state.first.mul_(kBeta1).add_(gradient, 1.0 - kBeta1);
  state.second.mul_(kBeta2).addcmul_(gradient, gradient, 1.0 - kBeta2);
  const double first_scale = 1.0 - std::pow(kBeta1, static_cast<double>(steps));
  const double second_scale = 1.0 - std::pow(kBeta2, static_cast<double>(steps));
  const at::Tensor root = state.second.div(second_scale).sqrt_().add_(kEpsilon);
  state.value.addcdiv_(state.first, root, -learning_rate / first_scale);
}

double cosine_rate(double first, int64_t step, int64_t steps) {
  const double phase = std::numbers::pi * static_cast<double>(step) / static_cast<double>(steps);
  return first * 0.5 * (1.0 + std::cos(phase));
}

ShardedAdam::ShardedAdam(Communicator& comm, const std::vector<at::Tensor>& start)
    : comm_(comm), device_(start.at(0).device()) {
  for (const at::Tensor& parameter : start) {
    counts_.push_back(parameter.numel());
    const at::Tensor value = slice_of(parameter, comm.rank()).to(at::kFloat, false, /*copy=*/true);
    slices_.push_back({value, at::zeros_like(value), at::zeros_like(value)});
  }
}

at::Tensor ShardedAdam::slice_of(const at::Tensor& tensor, int rank) const {
  const int64_t count = tensor.numel();
  const int64_t begin = count * rank / comm_.size();
  const int64_t end = count * (rank + 1) / comm_.size();
  return tensor.view({count}).narrow(0, begin, end - begin);
}

at::Tensor ShardedAdam::largest(const std::vector<std::vector<at::Tensor>>& gradients) {
  const auto parameters = static_cast<int64_t>(counts_.size());
  at::Tensor found = at::zeros({comm_.size(), parameters}, at::dtype(at::kDouble).device(device_));
  for (const std::vector<at::Tensor>& list : gradients) {
    for (int64_t p = 0; p < parameters; ++p) {
      const at::Tensor& gradient = list.at(static_cast<size_t>(p));
      if (!gradient.defined()) continue;
      at::Tensor mine = found[comm_.rank()][p];
      mine.copy_(at::maximum(mine, gradient.abs().max().to(at::kDouble)));
    }
  }
  comm_.all_reduce_sum(found);  // exact: all summands but one are zero
  return std::get<0>(found.max(0)).cpu();
}

void ShardedAdam::step(const std::vector<std::vector<at::Tensor>>& gradients, int64_t summands,
                       double learning_rate) {
  ++steps_;
  const at::Tensor bounds = largest(gradients);
  if (!std::isfinite(bounds.sum().item<double>())) {
    throw std::runtime_error("the gradients are not finite");
  }
  for (size_t p = 0; p < slices_.size(); ++p) {
    at::Tensor sum = at::zeros({counts_[p]}, at::dtype(at::kDouble).device(device_));
    const ReproducibleSum rounding(bounds[static_cast<int64_t>(p)].item<double>() *
                                   static_cast<double>(summands));
    for (const std::vector<at::Tensor>& list : gradients) {
      if (!list[p].defined()) continue;
      at::Tensor summand = list[p].reshape({counts_[p]}).to(at::kDouble);
      rounding.round(summand);
      sum.add_(summand);
    }
    for (int rank = 0; rank < comm_.size(); ++rank) {
      at::Tensor slice = slice_of(sum, rank);
      if (slice.numel() > 0) comm_.reduce_sum(slice, rank);
    }
    adam_step(slices_[p], slice_of(sum, comm_.rank()).to(at::kFloat), steps_, learning_rate);
  }
}

void ShardedAdam::write_to(const std::vector<at::Tensor>& weights) {
  for (size_t p = 0; p < slices_.size(); ++p) {
    const at::Tensor whole = weights[p].detach();
    slice_of(whole, comm_.rank()).copy_(slices_[p].value);
    for (int rank = 0; rank < comm_.size(); ++rank) {
      at::Tensor slice = slice_of(whole, rank);
      if (slice.numel() > 0) comm_.broadcast(slice, rank);
    }
  }
}

}  // namespace dotresize
