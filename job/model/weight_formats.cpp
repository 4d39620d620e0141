#include "job/model/weight_formats.h"

#include <functional>
#include <numeric>
#include <set>

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

/// A matrix and its layer.
struct PlacedTensor {
  const StoredTensor& tensor;
  int64_t layer;  ///< -1: embedding or head

  bool is(std::string_view module) const {
    return tensor.name.ends_with("." + std::string(module) + ".weight");
  }
  bool is_router() const { return tensor.role == TensorRole::kInProjWeight && is("gate"); }
};

using TypeChoice = std::function<const StorageType&(const PlacedTensor&)>;

/// Returns true if the layer's most sensitive matrices get more bits: the first and last eighth of
/// the layers, and every third one between.
bool has_more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

const StorageType& q4_k_m_of_end(const ModelConfig& config, const PlacedTensor& placed) {
  if (placed.tensor.role == TensorRole::kEmbedding && !config.tie_word_embeddings) return kQ4_K;
  return placed.tensor.shape.back() % kQ6_K.block == 0 ? kQ6_K : kQ8_0;
}

const StorageType& q4_k_m(const ModelConfig& config, const PlacedTensor& placed) {
  if (placed.layer < 0) return q4_k_m_of_end(config, placed);
  if (placed.is_router()) return kF32;
  const bool has_eight_experts = config.mixture && config.mixture->experts == 8;
  const bool more = has_more_bits(placed.layer, config.num_layers);
  if (placed.is("v_proj")) {
    if (has_eight_experts) return kQ8_0;
    const bool is_llama_70b =
        config.num_layers == 80 && config.attention.num_heads != config.attention.num_kv_heads;
    return more ? kQ6_K : is_llama_70b ? kQ5_K : kQ4_K;
  }
  if (placed.is("k_proj")) return has_eight_experts ? kQ8_0 : kQ4_K;
  if (placed.is("qkv_proj")) return kQ5_K;
  if (placed.is("o_proj")) return has_eight_experts ? kQ5_K : kQ4_K;
  return placed.tensor.role == TensorRole::kOutProjWeight && more ? kQ6_K : kQ4_K;
}

class FormatSum {
 public:
  FormatSum(const char* format, const StorageType& of_vectors) : of_vectors_(of_vectors) {
    size_.format = format;
  }

  void add(const StoredTensor& tensor, const StorageType& wanted) {
    const int64_t row = tensor.shape.back();
    const int64_t rows = std::accumulate(tensor.shape.begin(), tensor.shape.end() - 1, int64_t{1},
                                         std::multiplies());
    const StorageType* type = tensor.shape.size() < 2 ? &of_vectors_ : &wanted;
    if (row % type->block != 0) unfit_.insert(row);
    while (row % type->block != 0) type = type->larger;
    size_.bytes += rows * (row / type->block) * type->bytes;
  }

  FormatSize result() {
    size_.unfit_rows.assign(unfit_.begin(), unfit_.end());
    return size_;
  }

 private:
  const StorageType& of_vectors_;
  FormatSize size_;
  std::set<int64_t> unfit_;
};

FormatSize size_in(const char* format, const ModelConfig& config, const StorageType& of_vectors,
                   const TypeChoice& choice) {
  FormatSum sum(format, of_vectors);
  const auto add = [&](const StoredTensor& tensor, int64_t layer) {
    sum.add(tensor, choice({tensor, layer}));
  };
  for (const StoredTensor& tensor : embedding_tensors(config)) add(tensor, -1);
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    for (const StoredTensor& tensor : sublayer_tensors(config, s)) add(tensor, layer_of(s));
  }
  for (const StoredTensor& tensor : head_tensors(config)) {
    const bool tied = tensor.role == TensorRole::kHead && config.tie_word_embeddings;
    if (!tied) add(tensor, -1);
  }
  return sum.result();
}

int64_t in_whole_blocks(int64_t features) {
  return (features + kQ8_0.block - 1) / kQ8_0.block * kQ8_0.block;
}

/// Pads features with zeros as `dotresize export --to gguf` does.
ModelConfig as_exported(ModelConfig config) {
  config.intermediate_size = in_whole_blocks(config.intermediate_size);
  if (config.mixture) {
    config.mixture->intermediate_size = in_whole_blocks(config.mixture->intermediate_size);
  }
  return config;
}

}  // namespace

std::vector<FormatSize> format_sizes(const ModelConfig& config) {
  const ModelConfig exported = as_exported(config);
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
