#include "job/plan/allocate/inner_widths.h"

#include <algorithm>
namespace dotresize {

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

std::vector<int64_t> possible_inner_widths(const ModelConfig& config, const ResolvedJob& job,
                                           int64_t sublayer) {
  std::vector<int64_t> widths = is_attention(sublayer)
                                    ? possible_value_dims(config)
                                    : possible_mlp_widths(config, job.mlp.value(), sublayer);
  const bool may_go =
      job.target.allocation && !job.stock_output() && !has_output_bias(config, sublayer);
  if (may_go) widths.push_back(0);
  return widths;
}

int64_t attention_features(const ModelConfig& config) {
  return config.attention.num_heads * config.attention.head_dim;
}

bool may_be_cut(const ResolvedJob& job, int64_t sublayer) {
  return is_attention(sublayer) ? job.allocates_values() : job.mlp.has_value();
}

int64_t count_cut_sublayers(const ResolvedJob& job, int64_t first, int64_t end) {
  int64_t count = 0;
  for (int64_t s = first; s < end; ++s) count += may_be_cut(job, s) ? 1 : 0;
  return count;
}

int64_t cut_sums_bytes(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer) {
  if (!may_be_cut(job, sublayer)) return 0;
  const int64_t features = attention_features(config);
  return is_attention(sublayer) ? features * features * 8 : feature_sums_bytes(config, sublayer);
}

}  // namespace dotresize
