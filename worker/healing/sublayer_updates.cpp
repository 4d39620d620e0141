#include "worker/healing/sublayer_updates.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "job/model/tensor_table.h"
#include "job/plan/healing.h"
#include "worker/healing/adam.h"

namespace dotresize {
namespace {

constexpr uint64_t kMostWeights = uint64_t{1} << 20;  // of a sublayer

/// [rank, in], of variance 1/in.
at::Tensor random_factor(int64_t sublayer, size_t weight, int64_t rank, int64_t in) {
  const uint64_t seed = static_cast<uint64_t>(sublayer) * kMostWeights + weight;
  return at::randn({rank, in}, at::detail::createCPUGenerator(seed), at::kFloat)
      .div_(std::sqrt(static_cast<double>(in)));
}

std::string value_name(size_t parameter) { return fmt::format("value-{}", parameter); }
std::string first_name(size_t parameter) { return fmt::format("first-{}", parameter); }
std::string second_name(size_t parameter) { return fmt::format("second-{}", parameter); }

}  // namespace

SublayerUpdates::SublayerUpdates(const ModelConfig& config, const SublayerWeights& weights) {
  const auto add = [&](const Linear& linear) {
    const int64_t out = linear.weight.size(0);
    const int64_t in = linear.weight.size(1);
    const int64_t rank = std::min({kUpdateRank, out, in});
    const at::Device device = linear.weight.device();
    const auto add_parameter = [&](const at::Tensor& value, double rate) {
      const at::Tensor leaf = value.to(device).detach().requires_grad_();
      const auto zero = [&] { return at::zeros_like(leaf.detach()); };
      parameters_.push_back({leaf, zero(), zero(), zero(), rate});
    };
    add_parameter(random_factor(weights.sublayer, parameters_.size() / 2, rank, in), 1.0);
    add_parameter(at::zeros({out, rank}, at::kFloat),
                  std::sqrt(static_cast<double>(in) / static_cast<double>(rank)));
  };
  const bool mixture = config.is_mixture(weights.sublayer);
  for (size_t i = mixture ? 1 : 0; i < weights.in_proj.size(); ++i) {
    updated_in_proj_.push_back(i);
    add(weights.in_proj[i]);
  }
  for (const Linear& linear : weights.out_proj) add(linear);
}

void SublayerUpdates::attach_to(SublayerWeights& weights) const {
  auto next = parameters_.begin();
  const auto attach = [&](Linear& linear) {
    linear.update = {next->value, (next + 1)->value};
    next += 2;
  };
  for (const size_t i : updated_in_proj_) attach(weights.in_proj.at(i));
  for (Linear& linear : weights.out_proj) attach(linear);
}

void SublayerUpdates::add(const std::vector<at::Tensor>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) parameters_.at(i).gradient.add_(gradients[i]);
  }
}

void SublayerUpdates::step(double learning_rate) {
  const c10::NoGradGuard no_gradients;
  ++steps_;
  const auto steps = static_cast<double>(steps_);
  const double first_bias = 1.0 - std::pow(kAdamBeta1, steps);
  const double second_bias = 1.0 - std::pow(kAdamBeta2, steps);
  for (Parameter& parameter : parameters_) {
    const at::Tensor& g = parameter.gradient;
    if (!std::isfinite(g.sum(at::kDouble).item<double>())) {
      throw std::runtime_error("the gradients are not finite");
    }
    parameter.first.mul_(kAdamBeta1).add_(g, 1.0 - kAdamBeta1);
    parameter.second.mul_(kAdamBeta2).addcmul_(g, g, 1.0 - kAdamBeta2);
    const at::Tensor scale = (parameter.second / second_bias).sqrt_().add_(kAdamEpsilon);
    const double rate = learning_rate * parameter.rate / first_bias;
    parameter.value.addcdiv_(parameter.first, scale, -rate);
    parameter.gradient.zero_();
  }
}

std::map<std::string, at::Tensor> SublayerUpdates::state() const {
  std::map<std::string, at::Tensor> state = {{"steps", at::scalar_tensor(steps_, at::kLong)}};
  for (size_t i = 0; i < parameters_.size(); ++i) {
    state[value_name(i)] = parameters_[i].value.detach().cpu();
    state[first_name(i)] = parameters_[i].first.cpu();
    state[second_name(i)] = parameters_[i].second.cpu();
  }
  return state;
}

void SublayerUpdates::restore(const std::map<std::string, at::Tensor>& state) {
  const c10::NoGradGuard no_gradients;
  steps_ = state.at("steps").item<int64_t>();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].value.copy_(state.at(value_name(i)));
    parameters_[i].first.copy_(state.at(first_name(i)));
    parameters_[i].second.copy_(state.at(second_name(i)));
  }
}

std::map<std::string, at::Tensor> merged_weights(
    const ModelConfig& config, int64_t sublayer, const std::map<std::string, at::Tensor>& state,
    const std::function<at::Tensor(const StoredTensor&)>& stored) {
  std::map<std::string, at::Tensor> merged;
  size_t parameter = 0;
  for (const StoredTensor& tensor : updated_tensors(config, sublayer)) {
    const at::Tensor A = state.at(value_name(parameter)).to(at::kDouble);
    const at::Tensor B = state.at(value_name(parameter + 1)).to(at::kDouble);
    parameter += 2;
    merged[tensor.name] = at::addmm(stored(tensor).to(at::kDouble), B, A);
  }
  return merged;
}

}  // namespace dotresize
