#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "worker/evaluation/whole_model.h"

namespace dotresize::testing {

/// Returns a config with two layers, width 24, three query heads of width 12 on one key head, and
/// all biases.
ModelConfig tiny_config();
/// Returns tiny_config without biases, with fused in_proj, normed heads and rotary channels in half
/// of each head.
ModelConfig fused_config();
/// Returns tiny_config without biases in the MLPs; the second MLP is a mixture of five experts.
ModelConfig mixture_config();
/// Returns the name of such a config: "Plain", "Fused" or "Mixture".
std::string kind_of(const ModelConfig& config);
/// Returns Gaussian float32 weights, with norm weights around 1.
WholeModel random_model(const ModelConfig& config, uint64_t seed);
WholeModel load_model(const std::filesystem::path& dir, at::ScalarType dtype = at::kFloat);
WholeModel to_dtype(const WholeModel& model, at::ScalarType dtype);

at::Tensor random_ids(const ModelConfig& config, at::IntArrayRef shape, uint64_t seed);
/// Returns the numbers [tokens] float64 with which loss_gradient draws these labels: the middle of
/// each label's share. probabilities: [tokens, vocabulary] float64.
at::Tensor numbers_that_draw(const at::Tensor& labels, const at::Tensor& probabilities);
/// Returns [n, n] float64.
at::Tensor random_orthogonal(int64_t n, uint64_t seed);
/// Returns the weights as the tensors that a checkpoint of such a model stores, in writing order.
std::vector<at::Tensor> stored_values(const ModelConfig& config, const SublayerWeights& weights);
double largest_difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace dotresize::testing
