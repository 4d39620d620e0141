#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

namespace v1 {
class Method;
}

/// `method.mlp`: number of features (d_ff) that are left of every MLP, and of every expert of a
/// mixture. 0: the model has no MLP of that kind.
struct MlpTarget {
  std::optional<double> sparsity;  ///< requested sparsity; absent: the width itself was given
  int64_t width = 0;
  int64_t expert_width = 0;
  /// `method.allocate`: the numbers are still to be chosen, a multiple of round_to or all features.
  /// The widths are those of the dense model, as a bound.
  bool allocated = false;
  bool by_layer = false;  ///< used only if allocated: layers may differ
  int64_t round_to = 1;   ///< used only if allocated
};

/// Returns the target that the job asks for with this model: floor((1-s)*d_ff/round_to +
/// 1e-9)*round_to, or the width itself. Returns nullopt without `method.mlp`, and if no feature
/// would be removed. Throws InputError naming the key.
std::optional<MlpTarget> mlp_target(const v1::Method& method, int64_t round_to,
                                    const ModelConfig& config);

/// Returns the model with its MLPs cut to the target's intermediate sizes. Without a target it
/// stays the same. Sizes of an allocation are the dense ones until the loss decides. They are
/// stated by layer if layers may differ. A model that has sizes by layer already keeps them.
ModelConfig with_cut_mlps(const ModelConfig& config, const std::optional<MlpTarget>& target);

/// Bytes of the sums over the sublayer's features: d_ff x d_ff in float64 for each of its MLPs.
int64_t feature_sums_bytes(const ModelConfig& config, int64_t sublayer);

/// Number of values per token that o reads in the dense model.
int64_t attention_features(const AttentionSpec& attention);

/// Features of the MLPs that are not mixtures, which are the same in all layers of a dense model.
/// 0: there is none.
int64_t dense_features(const ModelConfig& config);
/// The same for experts.
int64_t expert_features(const ModelConfig& config);

}  // namespace dotresize
