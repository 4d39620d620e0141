#include "job/plan/net_size.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/errors.h"
#include "base/text/human_text.h"
#include "job/model/model_size.h"
#include "job/model/units/unit.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/allocate/shortcut_forms.h"

namespace dotresize {

ModelConfig output_model_config(const ModelConfig& source, const ResolvedJob& job,
                                const JunctionWidths& widths) {
  ModelConfig output = with_cut_mlps(source, job.mlp);
  output.files.dtypes = job.output.dtypes;
  output.files.bytes = 0;
  output.files.quantisation.reset();
  output.form.junction_widths = widths.all;
  if (job.stock_output()) {
    output.hidden_size = widths.largest();
    output.family = job.output.stock_family.value_or(source.family);
    // Σx²/k + eps·d/k is d/k times what the dense model's norm has under the root.
    output.rms_norm_eps *=
        static_cast<double>(source.hidden_size) / static_cast<double>(output.hidden_size);
    return output;
  }
  output.compressed = true;
  if (widths.mapped_count == 0) {
    output.form.norm_weights = true;
    output.form.shortcuts.assign(static_cast<std::size_t>(output.num_sublayers()),
                                 kIdentityShortcut);
    return output;
  }
  output.form.shortcuts = shortcut_forms(widths.all, source.hidden_size, job.oblique_maps());
  const bool head_is_mapped = widths.mapped_count == source.num_junctions();
  const bool head_is_turned = !output.shortcut(output.num_sublayers() - 1).dense();
  return with_smaller_ends(output, head_is_mapped || head_is_turned);
}

NetSize net_size(const ModelConfig& config, const ResolvedJob& job, const JunctionWidths& widths) {
  const TensorsSize dense = stored_size(config);
  const TensorsSize compressed = stored_size(output_model_config(config, job, widths));
  return {dense.parameters, dense.bytes, compressed.parameters, compressed.bytes};
}

int64_t largest_bytes(double size, int64_t dense_bytes) {
  // 0.7 * 10 may be a little below 7.
  constexpr double kSlack = 1e-3;
  return static_cast<int64_t>(std::floor(size * static_cast<double>(dense_bytes) + kSlack));
}

std::string size_text(double fraction) {
  constexpr double kSteps = 1e6;
  return fmt::format("{:.6f}", std::ceil(fraction * kSteps) / kSteps);
}

int64_t width_from_size(double size, int64_t round_to, const ModelConfig& config,
                        const ResolvedJob& job) {
  NetSize net;
  for (int64_t k = config.hidden_size / round_to * round_to; k > 0; k -= round_to) {
    net = net_size(config, job,
                   decided(uniform_widths(config, job.maps.head_sliced, k), config.hidden_size));
    if (net.compressed_bytes <= largest_bytes(size, net.dense_bytes)) return k;
  }
  if (round_to > config.hidden_size) {
    throw InputError(
        "method.size",
        fmt::format("no width up to the hidden size, {}, is a multiple of {}; a smaller round_to "
                    "would do",
                    config.hidden_size, round_to));
  }
  throw InputError("method.size",
                   fmt::format("{} is not available: the smallest width, {}, gives {} of the dense "
                               "model's bytes",
                               size, round_to, size_text(net.bytes_fraction())));
}

std::string size_warning(const NetSize& size, const ResolvedJob& job, const StoredDtypes& dense,
                         const StoredDtypes& compressed) {
  if (size.compressed_bytes < size.dense_bytes) return "";
  std::string text = fmt::format(
      "the result, {} bytes ({} parameters as {}), is not smaller than the dense model, {} bytes "
      "({} parameters as {})",
      with_separators(size.compressed_bytes), with_separators(size.compressed_parameters),
      to_string(compressed), with_separators(size.dense_bytes),
      with_separators(size.dense_parameters), to_string(dense));
  std::vector<std::string> remedies;
  if (size_in_bytes(compressed.main) > size_in_bytes(dense.main)) {
    remedies.push_back("output.dtype: same");
  }
  remedies.push_back("a smaller width");
  if (!job.stock_output()) {
    remedies.push_back("one map for all (output.format: stock), which needs no shortcuts");
  }
  remedies.push_back("method.size, which finds the width for a size");
  return text + "; remedies: " + listed(remedies);
}

ServedSizes served_sizes(const ModelConfig& config, const ResolvedJob& job) {
  ServedSizes sizes;
  if (!job.stock_output()) return sizes;
  ResolvedJob known = job;
  if (!job.sizes_known()) {
    // The largest number of features, in each MLP or in each expert, with which the output meets
    // the size.
    const int64_t most = largest_bytes(job.target.allocation->size, stored_bytes(config));
    for (const int64_t features : kFeatures.sizes(config.layers.front(), job.mlp->round_to)) {
      MlpTarget& cut = known.mlp.emplace();
      (job.mlp->expert_width > 0 ? cut.expert_width : cut.width) = features;
      ModelConfig output = with_cut_mlps(config, cut);
      output.files.dtypes = job.output.dtypes;
      if (stored_bytes(output) > most) continue;
      sizes.assumed_features = features;
      break;
    }
    if (sizes.assumed_features == 0) return sizes;
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
        "warning: {} stores rows of {} in a larger type: they are not a multiple of its block\n",
        each.format, fmt::join(each.unfit_rows, ", "));
  }
  return format_table(rows, {Align::kLeft, Align::kRight, Align::kRight, Align::kRight}) + warnings;
}

}  // namespace dotresize
