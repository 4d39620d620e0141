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

namespace dotresize {
namespace {

constexpr uint64_t kMostWeights = uint64_t{1} << 20;  // per sublayer

/// Name of a parameter's tensor in state().
std::string name_of(const char* what, size_t parameter) {
  return fmt::format("{}-{}", what, parameter);
}

template <class Weights>
auto& linear_of(Weights& weights, const StoredTensor& weight) {
  auto& linears = weight.role == TensorRole::kInProjWeight ? weights.in_proj : weights.out_proj;
  return linears.at(weight.index);
}

}  // namespace

SublayerUpdates::SublayerUpdates(const ModelConfig& config, const SublayerWeights& weights)
    : updated_(updated_tensors(config, weights.sublayer)) {
  for (const StoredTensor& weight : updated_) {
    const int64_t out = weight.shape.at(0);
    const int64_t in = weight.shape.at(1);
    const int64_t rank = std::min({kUpdateRank, out, in});
    const auto add = [&](const at::Tensor& value, double rate) {
      const at::Tensor leaf = value.to(linear_of(weights, weight).weight.device()).requires_grad_();
      const auto zero = [&] { return at::zeros_like(leaf.detach()); };
      parameters_.push_back({{leaf, zero(), zero()}, zero(), rate});
    };
    const uint64_t seed =
        static_cast<uint64_t>(weights.sublayer) * kMostWeights + parameters_.size() / 2;
    add(at::randn({rank, in}, at::detail::createCPUGenerator(seed), at::kFloat)
            .div_(std::sqrt(static_cast<double>(in))),
        1.0);
    add(at::zeros({out, rank}, at::kFloat),
        std::sqrt(static_cast<double>(in) / static_cast<double>(rank)));
  }
}

void SublayerUpdates::attach_to(SublayerWeights& weights, double share) const {
  const c10::NoGradGuard no_gradients;
  for (size_t i = 0; i < updated_.size(); ++i) {
    const at::Tensor& B = parameters_[2 * i + 1].adam.value;
    linear_of(weights, updated_[i]).update = {parameters_[2 * i].adam.value,
                                              share == 1.0 ? B : B * share};
  }
}

void SublayerUpdates::add(const std::vector<at::Tensor>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) parameters_.at(i).gradient.add_(gradients[i]);
  }
}

void SublayerUpdates::step(double learning_rate) {
  const c10::NoGradGuard no_gradients;
  ++steps_;
  for (Parameter& parameter : parameters_) {
    if (!std::isfinite(parameter.gradient.sum(at::kDouble).item<double>())) {
      throw std::runtime_error("the gradients are not finite");
    }
    adam_step(parameter.adam, parameter.gradient, steps_, learning_rate * parameter.rate);
    parameter.gradient.zero_();
  }
}

std::map<std::string, at::Tensor> SublayerUpdates::state() const {
  std::map<std::string, at::Tensor> state = {{"steps", at::scalar_tensor(steps_, at::kLong)}};
  for (size_t i = 0; i < parameters_.size(); ++i) {
    state[name_of("value", i)] = parameters_[i].adam.value.detach().cpu();
    state[name_of("first", i)] = parameters_[i].adam.first.cpu();
    state[name_of("second", i)] = parameters_[i].adam.second.cpu();
  }
  return state;
}

void SublayerUpdates::restore(const std::map<std::string, at::Tensor>& state) {
  const c10::NoGradGuard no_gradients;
  steps_ = state.at("steps").item<int64_t>();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].adam.value.copy_(state.at(name_of("value", i)));
    parameters_[i].adam.first.copy_(state.at(name_of("first", i)));
    parameters_[i].adam.second.copy_(state.at(name_of("second", i)));
  }
}

std::map<std::string, at::Tensor> merged_weights(
    const ModelConfig& config, int64_t sublayer, const std::map<std::string, at::Tensor>& state,
    double share, const std::function<at::Tensor(const StoredTensor&)>& stored) {
  std::map<std::string, at::Tensor> merged;
  size_t parameter = 0;
  for (const StoredTensor& tensor : updated_tensors(config, sublayer)) {
    const at::Tensor A = state.at(name_of("value", parameter)).to(at::kDouble);
    const at::Tensor B = state.at(name_of("value", parameter + 1)).to(at::kDouble);
    parameter += 2;
    merged[tensor.name] = at::addmm(stored(tensor).to(at::kDouble), B, A, 1.0, share);
  }
  return merged;
}

}  // namespace dotresize
