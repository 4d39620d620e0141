#include "job/plan/served_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "base/text/human_text.h"
#include "job/model/model_size.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/net_size.h"

namespace dotresize {
namespace {

int64_t bytes_of(const ModelConfig& config, Dtype dtype) {
  return stored_parameters(config) * size_in_bytes(dtype);
}

/// Target with this number of features in each MLP, or in each expert.
MlpTarget with_features_of(const MlpTarget& allocated, int64_t features) {
  MlpTarget target;
  (allocated.expert_width > 0 ? target.expert_width : target.width) = features;
  return target;
}

/// Largest number of features with which an output that keeps the model's width meets the size.
std::optional<int64_t> features_that_meet_the_size(const ModelConfig& config,
                                                   const ResolvedJob& job) {
  const int64_t most =
      largest_bytes(job.target.allocation->size, bytes_of(config, job.model.dtype));
  for (const int64_t features : possible_mlp_widths(config, *job.mlp, 1)) {
    const ModelConfig cut = with_cut_mlps(config, with_features_of(*job.mlp, features));
    if (bytes_of(cut, job.output.dtype) <= most) return features;
  }
  return std::nullopt;
}

}  // namespace

ServedSizes served_sizes(const ModelConfig& config, const ResolvedJob& job) {
  ServedSizes sizes;
  if (!job.stock_output()) return sizes;
  ResolvedJob known = job;
  if (!job.widths_known()) {
    const std::optional<int64_t> features = features_that_meet_the_size(config, job);
    if (!features) return sizes;
    sizes.assumed_features = *features;
    known.mlp = with_features_of(*job.mlp, *features);
  }
  const std::vector<FormatSize> dense = format_sizes(config);
  const std::vector<FormatSize> compressed =
      format_sizes(output_model_config(config, known, known.widths));
  for (std::size_t i = 0; i < dense.size(); ++i) {
    sizes.formats.push_back(
        {dense[i].format, dense[i].bytes, compressed[i].bytes, compressed[i].unfit_rows});
  }
  return sizes;
}

std::string served_sizes_table(const ServedSizes& sizes) {
  if (sizes.formats.empty()) return "";
  const std::string output = sizes.assumed_features == 0
                                 ? "compressed"
                                 : fmt::format("{} features", sizes.assumed_features);
  std::vector<std::vector<std::string>> rows = {{"served as", "dense", output, "of dense"}};
  std::string warnings;
  for (const ServedSize& each : sizes.formats) {
    rows.push_back({each.format, human_bytes(each.dense_bytes), human_bytes(each.compressed_bytes),
                    format_percent(static_cast<double>(each.compressed_bytes) /
                                   static_cast<double>(each.dense_bytes))});
    if (each.unfit_rows.empty()) continue;
    warnings += fmt::format(
        "warning: {} stores rows of {} in a larger type: they are no multiple of its block\n",
        each.format, fmt::join(each.unfit_rows, ", "));
  }
  return format_table(rows, {Align::kLeft, Align::kRight, Align::kRight, Align::kRight}) + warnings;
}

}  // namespace dotresize
