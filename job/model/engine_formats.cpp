#include "job/model/engine_formats.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "job/model/tensor_table.h"

namespace dotresize {
namespace {

/// Block format of the numbers in a row.
struct StorageType {
  int64_t block;                        ///< numbers per block
  int64_t bytes;                        ///< bytes per block
  const StorageType* larger = nullptr;  ///< used if the row length is not a multiple of block
};

// Values of ggml-common.h.
constexpr StorageType kF32{1, 4};
constexpr StorageType kF16{1, 2};
constexpr StorageType kQ8_0{32, 34, &kF16};
constexpr StorageType kQ5_1{32, 24, &kF16};
constexpr StorageType kQ5_0{32, 22, &kF16};
constexpr StorageType kQ6_K{256, 210, &kQ8_0};
constexpr StorageType kQ5_K{256, 176, &kQ5_1};
constexpr StorageType kQ4_K{256, 144, &kQ5_0};
constexpr StorageType kW4A16{128, 64 + 2, &kF16};  // with a 16-bit scale per group
constexpr StorageType kFp8{16, 16, &kF16};

/// A matrix, or one such matrix per expert, and its layer.
struct PlacedTensor {
  const TensorRow& tensor;
  int64_t columns;
  int64_t layer;  ///< -1: embedding or head

  bool is(std::string_view module) const { return tensor.module == module; }
  /// A router, or the gate of a shared expert.
  bool is_router() const {
    return tensor.role == TensorRole::kInProjWeight &&
           (is("gate") || is("router") || is("shared_expert_gate"));
  }
};

using TypeChoice = std::function<const StorageType&(const PlacedTensor&)>;

/// Number of experts in a mixture; 0: there is none.
int64_t most_experts(const ModelConfig& config) {
  int64_t most = 0;
  for (const LayerSpec& layer : config.layers) {
    if (layer.mlp.mixture) most = std::max(most, layer.mlp.mixture->experts);
  }
  return most;
}

const StorageType& q4_k_m(const ModelConfig& config, const PlacedTensor& placed) {
  if (placed.layer < 0) {
    if (placed.tensor.role == TensorRole::kEmbedding && !config.tie_word_embeddings) return kQ4_K;
    return placed.columns % kQ6_K.block == 0 ? kQ6_K : kQ8_0;
  }
  if (placed.is_router()) return kF32;
  const bool has_eight_experts = most_experts(config) == 8;
  // The most sensitive matrices get more bits in the first and last eighth of the layers, and in
  // every third one between.
  const int64_t layers = config.num_layers();
  const bool more = placed.layer < layers / 8 || placed.layer >= 7 * layers / 8 ||
                    (placed.layer - layers / 8) % 3 == 2;
  if (placed.is("v_proj")) {
    if (has_eight_experts) return kQ8_0;
    const AttentionSpec& attention = config.layers[placed.layer].attention;
    const bool is_llama_70b = layers == 80 && attention.num_heads != attention.num_kv_heads;
    return more ? kQ6_K : is_llama_70b ? kQ5_K : kQ4_K;
  }
  if (placed.is("k_proj")) return has_eight_experts ? kQ8_0 : kQ4_K;
  if (placed.is("qkv_proj")) return kQ5_K;
  if (placed.is("o_proj")) return has_eight_experts ? kQ5_K : kQ4_K;
  return placed.tensor.role == TensorRole::kOutProjWeight && more ? kQ6_K : kQ4_K;
}

FormatSize size_in(const char* format, const ModelConfig& config, const StorageType& of_vectors,
                   const TypeChoice& choice) {
  FormatSize size;
  size.format = format;
  std::set<int64_t> unfit;
  const auto add = [&](const std::vector<TensorRow>& tensors, int64_t layer, int64_t experts,
                       int64_t k_in, int64_t k_out) {
    for (const TensorRow& tensor : tensors) {
      if (tensor.role == TensorRole::kHead && config.tie_word_embeddings) continue;
      const int64_t first = size_of(tensor.rows, k_in, k_out);
      const int64_t row = tensor.columns ? size_of(*tensor.columns, k_in, k_out) : first;
      const int64_t rows = (tensor.columns ? first : 1) * (tensor.per_expert ? experts : 1);
      const bool is_matrix = tensor.columns && !tensor.convolution;
      const StorageType* type = is_matrix ? &choice({tensor, row, layer}) : &of_vectors;
      if (row % type->block != 0) unfit.insert(row);
      while (row % type->block != 0) type = type->larger;
      size.bytes += rows * (row / type->block) * type->bytes;
    }
  };
  const std::vector<int64_t>& widths = config.form.junction_widths;
  add(embedding_rows(config), -1, 0, 0, widths.front());
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    add(sublayer_rows(config, s, stored_form(config, s)), layer_of(s), mlp_count(config, s),
        widths[s], widths[s + 1]);
  }
  add(head_rows(config), -1, 0, widths.back(), 0);
  size.unfit_rows.assign(unfit.begin(), unfit.end());
  return size;
}

}  // namespace

std::vector<FormatSize> format_sizes(const ModelConfig& config) {
  // `dotresize export --to gguf` pads features with zeros.
  ModelConfig exported = config;
  const auto in_whole_blocks = [](int64_t features) {
    return (features + kQ8_0.block - 1) / kQ8_0.block * kQ8_0.block;
  };
  for (LayerSpec& layer : exported.layers) {
    layer.mlp.intermediate_size = in_whole_blocks(layer.mlp.intermediate_size);
  }
  const auto in_gguf = [](const StorageType& type) {
    return [&type](const PlacedTensor& placed) -> const StorageType& {
      return placed.is_router() ? kF32 : type;
    };
  };
  const auto in_layers = [](const StorageType& type) {
    return [&type](const PlacedTensor& placed) -> const StorageType& {
      return placed.layer < 0 || placed.is_router() ? kF16 : type;
    };
  };
  const TypeChoice mixed = [&](const PlacedTensor& placed) -> const StorageType& {
    return q4_k_m(exported, placed);
  };
  return {size_in("float16", exported, kF16, in_gguf(kF16)),
          size_in("Q8_0", exported, kF32, in_gguf(kQ8_0)), size_in("Q4_K_M", exported, kF32, mixed),
          size_in("FP8", config, kF16, in_layers(kFp8)),
          size_in("W4A16, groups of 128", config, kF16, in_layers(kW4A16))};
}

}  // namespace dotresize
