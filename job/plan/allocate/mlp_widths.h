#pragma once

#include <cstdint>
#include <optional>

#include "job/model/model_config.h"

namespace dotresize {

namespace v1 {
class Method;
}

/// `method.mlp`: of the features (d_ff) of every MLP, and of every expert of a mixture, so many are
/// left. 0: the model has none of the kind.
struct MlpTarget {
  std::optional<double> sparsity;  ///< as asked for; absent: the width itself was given
  int64_t width = 0;
  int64_t expert_width = 0;
  /// `method.allocate`: how many are left is still to be chosen, for each layer a multiple of
  /// round_to or all. The widths are those of the dense model, as a bound.
  bool allocated = false;
  int64_t round_to = 1;  ///< allocated only

  /// How often the features of an MLP are summed: if allocated for its curve, for its cut, and for
  /// the cut of the choice without maps, if that is not the choice itself.
  int64_t rounds() const { return allocated ? 3 : 1; }
};

/// Whether a layer has an MLP that is no mixture of experts.
bool has_dense_mlp(const ModelConfig& config);
/// Whether one has such a mixture.
bool has_experts(const ModelConfig& config);

/// What the job asks for, of this model: floor((1-s)*d_ff/round_to + 1e-9)*round_to, or the width
/// itself. Nothing without `method.mlp`, and if no feature would be removed. Throws InputError
/// naming the key.
std::optional<MlpTarget> mlp_target(const v1::Method& method, int64_t round_to,
                                    const ModelConfig& config);

/// That of `method.allocate: auto`.
MlpTarget allocated_mlps(int64_t round_to, const ModelConfig& config);

/// The model once its MLPs are cut: with these intermediate sizes, else the same. Those of an
/// allocation are by layer; a model that has sizes by layer already keeps them.
ModelConfig with_cut_mlps(const ModelConfig& config, const std::optional<MlpTarget>& target);

/// The model with the widest MLPs that a cut may leave: if allocated one may keep all of its
/// features.
ModelConfig with_widest_mlps(const ModelConfig& config, const std::optional<MlpTarget>& target);

/// The sublayer's MLPs: 1, or the number of its experts. 0 for an attention.
int64_t mlp_count(const ModelConfig& config, int64_t sublayer);

/// Of the sums over the sublayer's features: d_ff x d_ff in float64 for each of its MLPs. Bytes.
int64_t feature_sums_bytes(const ModelConfig& config, int64_t sublayer);

}  // namespace dotresize
