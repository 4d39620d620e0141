#include "job/plan/allocate/inner_widths.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/errors.h"
#include "dotresize/v1/job.pb.h"
#include "job/plan/allocate/junction_widths.h"

namespace dotresize {

bool has_dense_mlp(const ModelConfig& config) {
  return !config.mixture ||
         std::ranges::find(config.mixture->layers, false) != config.mixture->layers.end();
}

bool has_experts(const ModelConfig& config) {
  return config.mixture &&
         std::ranges::find(config.mixture->layers, true) != config.mixture->layers.end();
}

std::optional<MlpTarget> mlp_target(const v1::Method& method, int64_t round_to,
                                    const ModelConfig& config) {
  if (!method.has_mlp()) return std::nullopt;
  const bool dense = has_dense_mlp(config);
  const bool experts = has_experts(config);
  if (method.mlp().has_width() && dense && experts) {
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
  if (dense) target.width = left(config.intermediate_size);
  if (experts) target.expert_width = left(config.mixture->intermediate_size);
  const bool cuts = (dense && target.width < config.intermediate_size) ||
                    (experts && target.expert_width < config.mixture->intermediate_size);
  return cuts ? std::optional(target) : std::nullopt;
}

ModelConfig with_cut_mlps(const ModelConfig& config, const std::optional<MlpTarget>& target) {
  ModelConfig cut = config;
  if (!target || !config.form.intermediate_sizes.empty()) return cut;
  if (target->allocated && !target->by_layer) return cut;
  if (target->allocated) {
    cut.form.intermediate_sizes.reserve(static_cast<std::size_t>(config.num_layers));
    for (int64_t s = 1; s < config.num_sublayers(); s += 2) {
      cut.form.intermediate_sizes.push_back(config.is_mixture(s) ? target->expert_width
                                                                 : target->width);
    }
    return cut;
  }
  if (target->width > 0) cut.intermediate_size = target->width;
  if (target->expert_width > 0) cut.mixture->intermediate_size = target->expert_width;
  return cut;
}

int64_t mlp_count(const ModelConfig& config, int64_t sublayer) {
  if (is_attention(sublayer)) return 0;
  return config.is_mixture(sublayer) ? config.mixture->experts : 1;
}

int64_t feature_sums_bytes(const ModelConfig& config, int64_t sublayer) {
  const int64_t features = mlp_width(config, sublayer);
  return mlp_count(config, sublayer) * features * features * 8;
}

std::vector<int64_t> possible_value_dims(const ModelConfig& config) {
  const int64_t step = std::max<int64_t>(1, config.attention.head_dim / 32);
  std::vector<int64_t> dims = {config.attention.head_dim};
  for (int64_t dim = (config.attention.head_dim - 1) / step * step; dim > 0; dim -= step)
    dims.push_back(dim);
  return dims;
}

std::vector<int64_t> possible_mlp_widths(const ModelConfig& config, const MlpTarget& target,
                                         int64_t sublayer) {
  const int64_t all = mlp_width(config, sublayer);
  std::vector<int64_t> widths = {all};
  for (int64_t width = (all - 1) / target.round_to * target.round_to; width >= target.round_to;
       width -= target.round_to) {
    widths.push_back(width);
  }
  return widths;
}

int64_t attention_features(const ModelConfig& config) {
  return config.attention.num_heads * config.attention.head_dim;
}

}  // namespace dotresize
