#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "job/model_config.h"
#include "worker/checkpoint/reader.h"
#include "worker/maps/junction_solver.h"
#include "worker/model/rotary.h"

namespace dotresize {

struct Linear {
  at::Tensor weight;  ///< [out, in]
  at::Tensor bias;    ///< [out], or undefined
};

/// Weights of one sublayer, dense, half folded or folded. All of one dtype.
struct SublayerWeights {
  int64_t sublayer = 0;         ///< 2l: attention of layer l; 2l+1: its MLP
  at::Tensor norm;              ///< γ [d]; undefined once folded into the readers
  std::vector<Linear> readers;  ///< attention: q, k, v; MLP: gate, up
  Linear writer;                ///< attention: o; MLP: down
  at::Tensor shortcut;          ///< [k_in, k_out]; undefined: the identity
};

bool is_attention(int64_t sublayer);
/// "layers.3.attention", "layers.3.mlp".
std::string sublayer_name(int64_t sublayer);
/// "embed" for junction 0, else the name of the sublayer that writes it.
std::string junction_name(int64_t junction);

/// One stored tensor of a sublayer: its name in the checkpoint and its shape at widths k_in and
/// k_out.
struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// The tensors of a folded sublayer in the output, in writing order: readers, writer, their biases,
/// then the shortcut
/// ("model.layers.3.attention_shortcut.weight" or "...mlp_shortcut.weight", nn.Linear layout
/// [k_out, k_in]).
std::vector<StoredTensor> folded_tensors(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                                         int64_t k_out);

/// The same tensors' values, in the same order as folded_tensors.
std::vector<at::Tensor> folded_values(const SublayerWeights& weights);

/// Reads a sublayer of a dense or compressed checkpoint in `dtype` (a copy). Throws InputError for
/// missing tensors, wrong shapes, and values that are not finite.
SublayerWeights load_sublayer(const CheckpointReader& reader, const ModelConfig& config,
                              int64_t sublayer, at::ScalarType dtype);
/// embed_tokens [vocab, k_0].
at::Tensor load_embedding(const CheckpointReader& reader, const ModelConfig& config,
                          at::ScalarType dtype);
struct HeadWeights {
  at::Tensor norm;    ///< γ [d]; undefined where the model is compressed
  at::Tensor weight;  ///< lm_head [vocab, k_2L]; the embedding where tied
};
HeadWeights load_head(const CheckpointReader& reader, const ModelConfig& config,
                      at::ScalarType dtype);

/// Folds the unmap of the junction that the sublayer reads: γ and M_inv go into the readers, the
/// shortcut becomes M_inv. The result maps width k_in to the full width. Float64.
SublayerWeights fold_input(const SublayerWeights& weights, const at::Tensor& M_inv);
/// Folds the map of the junction that the sublayer writes: writer and shortcut are multiplied by M.
/// Float64.
SublayerWeights fold_output(const SublayerWeights& weights, const at::Tensor& M);
/// lm_head' = W · diag(γ) · M_invᵀ; norm becomes undefined. Float64. M_inv undefined: the identity.
HeadWeights fold_head(const HeadWeights& head, const at::Tensor& M_inv);

SublayerWeights to_dtype(const SublayerWeights& weights, at::ScalarType dtype);

/// x / sqrt(Σ x² / divisor + eps) · γ in float32. x: [..., k]; γ [k] or undefined; divisor: the
/// original width d.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gamma, int64_t divisor, double eps);

/// One sublayer with its skip: f(norm(x)) + x·shortcut. x: [batch, tokens, k_in] float32 (the
/// residual stream); projections run in the weights' dtype. Causal; returns [batch, tokens, k_out]
/// float32.
at::Tensor sublayer_forward(const ModelConfig& config, const SublayerWeights& weights,
                            const RotaryTable& rotary, const at::Tensor& x);

/// Logits [batch, tokens, vocab] float32 of the final residual stream x [batch, tokens, k_2L].
at::Tensor head_forward(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x);

}  // namespace dotresize
