#include "worker/transformer/load.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "base/errors.h"
#include "worker/transformer/layout.h"

namespace dotresize {
namespace {

// One pass and no temporary: a NaN comes out as both extremes.
bool all_finite(const at::Tensor& tensor) {
  const auto [least, greatest] = at::aminmax(tensor);
  return std::isfinite(least.item<double>()) && std::isfinite(greatest.item<double>());
}

at::Tensor load_tensor(const CheckpointReader& reader, const StoredTensor& wanted,
                       at::ScalarType dtype) {
  const at::Tensor stored = reader.get(wanted.name, wanted.shape);
  at::Tensor loaded = stored.to(dtype, /*non_blocking=*/false, /*copy=*/true);
  if (all_finite(loaded)) return loaded;
  if (!all_finite(stored)) {
    throw InputError("tensor '" + wanted.name + "' holds NaN or infinity");
  }
  throw InputError("tensor '" + wanted.name + "' holds a value beyond the range of " +
                   std::string(c10::toString(dtype)) + "; compute in float32 or bfloat16");
}

Linear load_linear(const CheckpointReader& reader, const LinearLayout& layout,
                   at::ScalarType dtype) {
  Linear linear;
  linear.weight = load_tensor(reader, layout.weight, dtype);
  if (!layout.bias.name.empty()) linear.bias = load_tensor(reader, layout.bias, dtype);
  return linear;
}

SublayerLayout layout_of(const ModelConfig& config, int64_t sublayer) {
  return sublayer_layout(config, sublayer, config.junction_widths.at(sublayer),
                         config.junction_widths.at(sublayer + 1));
}

}  // namespace

SublayerWeights load_sublayer(const CheckpointReader& reader, const ModelConfig& config,
                              int64_t sublayer, at::ScalarType dtype) {
  const SublayerLayout layout = layout_of(config, sublayer);
  SublayerWeights weights;
  weights.sublayer = sublayer;
  for (const LinearLayout& linear : layout.in_proj) {
    weights.in_proj.push_back(load_linear(reader, linear, dtype));
  }
  for (const StoredTensor& norm : layout.head_norms) {
    weights.head_norms.push_back(load_tensor(reader, norm, dtype));
  }
  for (const LinearLayout& linear : layout.out_proj) {
    weights.out_proj.push_back(load_linear(reader, linear, dtype));
  }
  if (!config.compressed) weights.norm = load_tensor(reader, layout.norm, dtype);
  if (config.has_shortcut(sublayer)) {
    weights.shortcut = load_tensor(reader, layout.shortcut, dtype).t();
  }
  return weights;
}

void read_sublayer_ahead(const CheckpointReader& reader, const ModelConfig& config,
                         int64_t sublayer) {
  const SublayerLayout layout = layout_of(config, sublayer);
  // The reader asks for the pages of each tensor that it hands out.
  for (const auto* linears : {&layout.in_proj, &layout.out_proj}) {
    for (const LinearLayout& linear : *linears) {
      reader.get(linear.weight.name, linear.weight.shape);
    }
  }
}

at::Tensor load_embedding(const CheckpointReader& reader, const ModelConfig& config,
                          at::ScalarType dtype) {
  return load_tensor(reader, {kEmbeddingName, {config.vocab_size, config.junction_widths.front()}},
                     dtype);
}

HeadWeights load_head(const CheckpointReader& reader, const ModelConfig& config,
                      at::ScalarType dtype) {
  HeadWeights head;
  head.weight =
      config.tie_word_embeddings
          ? load_embedding(reader, config, dtype)
          : load_tensor(reader, {kHeadName, {config.vocab_size, config.junction_widths.back()}},
                        dtype);
  if (!config.compressed) {
    head.norm = load_tensor(reader, {kFinalNormName, {config.hidden_size}}, dtype);
  }
  return head;
}

}  // namespace dotresize
