#include "worker/transformer/stored_tensors.h"

#include <stdexcept>

#include "job/model/sublayers.h"

namespace dotresize {

std::vector<StoredTensor> stored_tensors(const ModelConfig& config, int64_t sublayer) {
  const SublayerLayout layout =
      sublayer_layout(config, sublayer, config.junction_widths.at(sublayer),
                      config.junction_widths.at(sublayer + 1));
  std::vector<LinearLayout> linears = layout.in_proj;
  linears.insert(linears.end(), layout.out_proj.begin(), layout.out_proj.end());

  std::vector<StoredTensor> tensors;
  for (const LinearLayout& linear : linears) tensors.push_back(linear.weight);
  for (const LinearLayout& linear : linears) {
    if (!linear.bias.name.empty()) tensors.push_back(linear.bias);
  }
  tensors.insert(tensors.end(), layout.head_norms.begin(), layout.head_norms.end());
  if (!config.compressed) tensors.push_back(layout.norm);
  if (config.has_shortcut(sublayer)) tensors.push_back(layout.shortcut);
  return tensors;
}

std::vector<at::Tensor> stored_values(const ModelConfig& config, const SublayerWeights& weights) {
  if (weights.norm.defined() == config.compressed ||
      weights.shortcut.defined() != config.has_shortcut(weights.sublayer)) {
    throw std::logic_error(sublayer_name(weights.sublayer) + " is not as its model stores it");
  }
  std::vector<Linear> linears = weights.in_proj;
  linears.insert(linears.end(), weights.out_proj.begin(), weights.out_proj.end());

  std::vector<at::Tensor> values;
  for (const Linear& linear : linears) values.push_back(linear.weight);
  for (const Linear& linear : linears) {
    if (linear.bias.defined()) values.push_back(linear.bias);
  }
  values.insert(values.end(), weights.head_norms.begin(), weights.head_norms.end());
  if (weights.norm.defined()) values.push_back(weights.norm);
  if (weights.shortcut.defined()) values.push_back(weights.shortcut.t());
  return values;
}

}  // namespace dotresize
