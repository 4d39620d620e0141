#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

// Where a checkpoint keeps what, and in which shapes. The families name their tensors alike; what
// differs between them (biases, fused matrices, head norms, experts) is in ModelConfig.

inline constexpr char kEmbeddingName[] = "model.embed_tokens.weight";  ///< [vocab, k_0]
inline constexpr char kFinalNormName[] = "model.norm.weight";          ///< [d], dense models only
inline constexpr char kHeadName[] = "lm_head.weight";  ///< [vocab, k_2L], unless tied

/// One tensor: its name in the checkpoint and its shape.
struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// A linear layer; `bias.name` is empty where it has none.
struct LinearLayout {
  StoredTensor weight;
  StoredTensor bias;
};

/// The tensors of one sublayer. Dense models have the norm; compressed ones the shortcut, in
/// nn.Linear layout [k_out, k_in], where ModelConfig::has_shortcut.
struct SublayerLayout {
  StoredTensor norm;
  /// Attention: q, k, v; MLP: gate, up; or one, all fused. Mixture of experts: the router, then
  /// gate and up of each expert.
  std::vector<LinearLayout> in_proj;
  std::vector<StoredTensor> head_norms;  ///< q_norm, k_norm; empty where the model has none
  std::vector<LinearLayout> out_proj;    ///< attention: o; MLP: down; mixture: down of each expert
  StoredTensor shortcut;
};

/// The layout at widths k_in and k_out of the junctions that the sublayer reads and writes.
SublayerLayout sublayer_layout(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                               int64_t k_out);

}  // namespace dotresize
