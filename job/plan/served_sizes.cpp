#include "job/plan/served_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <optional>

#include "base/text/human_text.h"
#include "job/model/engine_formats.h"
#include "job/model/model_size.h"
#include "job/plan/net_size.h"

namespace dotresize {

ServedSizes served_sizes(const ModelConfig& config, const ResolvedJob& job,
                         const ModelConfig& output) {
  ServedSizes sizes;
  if (!job.stock_output()) return sizes;
  std::optional<ModelConfig> served;
  if (job.sizes_known()) {
    served = output;
  } else {
    // The largest number of features, in each MLP or in each expert, with which the output meets
    // the size.
    const int64_t most = largest_bytes(job.target.allocation->size, stored_bytes(config));
    ResolvedJob assumed = job;
    for (const int64_t features : kFeatures.sizes(config.layers.front(), job.mlp->round_to)) {
      MlpTarget& cut = assumed.mlp.emplace();
      (job.mlp->expert_width > 0 ? cut.expert_width : cut.width) = features;
      served = output_model_config(config, assumed, assumed.widths);
      if (stored_bytes(*served) > most) continue;
      sizes.assumed_features = features;
      break;
    }
    if (sizes.assumed_features == 0) return sizes;
  }
  const std::vector<FormatSize> dense = format_sizes(config);
  const std::vector<FormatSize> compressed = format_sizes(*served);
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
        "warning: {} stores rows of {} in a larger type: they are not a multiple of its block\n",
        each.format, fmt::join(each.unfit_rows, ", "));
  }
  return format_table(rows, {Align::kLeft, Align::kRight, Align::kRight, Align::kRight}) + warnings;
}

}  // namespace dotresize
