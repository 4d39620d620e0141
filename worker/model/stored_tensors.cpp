#include "worker/model/stored_tensors.h"

#include <stdexcept>

namespace dotresize {

std::vector<StoredTensor> folded_tensors(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                                         int64_t k_out) {
  const SublayerLayout layout = sublayer_layout(config, sublayer, k_in, k_out);
  std::vector<LinearLayout> linears = layout.readers;
  linears.push_back(layout.writer);

  std::vector<StoredTensor> tensors;
  for (const LinearLayout& linear : linears) tensors.push_back(linear.weight);
  for (const LinearLayout& linear : linears) {
    if (!linear.bias.name.empty()) tensors.push_back(linear.bias);
  }
  tensors.insert(tensors.end(), layout.head_norms.begin(), layout.head_norms.end());
  tensors.push_back(layout.shortcut);
  return tensors;
}

std::vector<at::Tensor> folded_values(const SublayerWeights& weights) {
  if (weights.norm.defined() || !weights.shortcut.defined()) {
    throw std::logic_error(sublayer_name(weights.sublayer) + " is not folded yet");
  }
  std::vector<Linear> linears = weights.readers;
  linears.push_back(weights.writer);

  std::vector<at::Tensor> values;
  for (const Linear& linear : linears) values.push_back(linear.weight);
  for (const Linear& linear : linears) {
    if (linear.bias.defined()) values.push_back(linear.bias);
  }
  values.insert(values.end(), weights.head_norms.begin(), weights.head_norms.end());
  values.push_back(weights.shortcut.t());
  return values;
}

}  // namespace dotresize
