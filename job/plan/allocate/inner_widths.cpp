#include "job/plan/allocate/inner_widths.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/errors.h"
#include "dotresize/v1/job.pb.h"
#include "job/plan/allocate/junction_widths.h"

namespace dotresize {

namespace {

int64_t features_of(const ModelConfig& config, bool experts) {
  const auto found = std::ranges::find_if(config.layers, [&](const LayerSpec& layer) {
    return layer.mlp.mixture.has_value() == experts;
  });
  return found == config.layers.end() ? 0 : found->mlp.intermediate_size;
}

}  // namespace

int64_t dense_features(const ModelConfig& config) { return features_of(config, false); }

int64_t expert_features(const ModelConfig& config) { return features_of(config, true); }

std::optional<MlpTarget> mlp_target(const v1::Method& method, int64_t round_to,
                                    const ModelConfig& config) {
  if (!method.has_mlp()) return std::nullopt;
  const int64_t dense = dense_features(config);
  const int64_t experts = expert_features(config);
  if (method.mlp().has_width() && dense > 0 && experts > 0) {
    throw InputError("method.mlp.width",
                     "the model has both MLPs and experts, whose widths differ; "
                     "method.mlp.sparsity is available");
  }
  MlpTarget target;
  if (method.mlp().has_sparsity()) target.sparsity = method.mlp().sparsity();
  const auto left = [&](int64_t features) {
    if (!target.sparsity) {
      const int64_t width = method.mlp().width();
      if (width <= features) return width;
      throw InputError("method.mlp.width",
                       fmt::format("{} is more than the model has, {} features", width, features));
    }
    const int64_t width = width_from_sparsity(*target.sparsity, features, round_to);
    if (width > 0) return width;
    throw InputError(
        "method.mlp.sparsity",
        fmt::format(
            "{} of {} features leaves no multiple of {}; a smaller sparsity{} "
            "or an explicit width would do",
            *target.sparsity, features, round_to,
            width_from_sparsity(*target.sparsity, features, 1) > 0 ? ", a smaller round_to" : ""));
  };
  if (dense > 0) target.width = left(dense);
  if (experts > 0) target.expert_width = left(experts);
  const bool cuts = target.width < dense || target.expert_width < experts;
  return cuts ? std::optional(target) : std::nullopt;
}

ModelConfig with_cut_mlps(const ModelConfig& config, const std::optional<MlpTarget>& target) {
  ModelConfig cut = config;
  if (!target || config.form.sizes_by_layer) return cut;
  if (target->allocated) {
    cut.form.sizes_by_layer = target->by_layer;
    return cut;
  }
  for (LayerSpec& layer : cut.layers) {
    layer.mlp.intermediate_size = layer.mlp.mixture ? target->expert_width : target->width;
  }
  return cut;
}

int64_t feature_sums_bytes(const ModelConfig& config, int64_t sublayer) {
  int64_t bytes = 0;
  for (const int64_t features : features_of_mlps(config, sublayer))
    bytes += features * features * 8;
  return bytes;
}

int64_t attention_features(const AttentionSpec& attention) {
  return attention.num_heads * attention.head_dim;
}

}  // namespace dotresize
