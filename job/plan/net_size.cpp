#include "job/plan/net_size.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/text/human_text.h"
#include "job/model/model_size.h"
#include "job/model/output_config.h"
#include "job/plan/allocate/shortcut_forms.h"

namespace dotresize {

namespace {

/// Config of a stock output, as wide as its one map; tied if its source is.
ModelConfig stock_config(ModelConfig output, const ModelConfig& source, const ResolvedJob& job,
                         const JunctionWidths& widths) {
  // Σx²/k + eps·d/k is d/k times what the dense model's norm has under the root.
  output.hidden_size = widths.largest();
  output.family = job.output.stock_family.value_or(source.family);
  output.rms_norm_eps *=
      static_cast<double>(source.hidden_size) / static_cast<double>(output.hidden_size);
  return output;
}

/// Config of an output without maps, with code of its own.
ModelConfig whole_config(ModelConfig output) {
  output.compressed = true;
  output.form.norm_weights = true;
  output.form.shortcuts.assign(static_cast<std::size_t>(output.num_sublayers()), kIdentityShortcut);
  return output;
}

ModelConfig mapped_config(ModelConfig output, const ModelConfig& source, const ResolvedJob& job,
                          const JunctionWidths& widths) {
  output.compressed = true;
  output.form.junction_groups = job.maps.groups;
  output.form.shortcuts = shortcut_forms(job.maps.shortcuts, widths.all, job.maps.groups,
                                         source.hidden_size, job.oblique_maps());
  const bool head_is_mapped = widths.mapped_count == source.num_junctions();
  const bool head_is_turned = !output.shortcut(output.num_sublayers() - 1).dense();
  return with_smaller_ends(output, head_is_mapped || head_is_turned);
}

}  // namespace

ModelConfig output_model_config(const ModelConfig& source, const ResolvedJob& job,
                                const JunctionWidths& widths) {
  ModelConfig output = with_cut_mlps(source, job.mlp);
  output.dtype = to_string(job.output.dtype);
  output.form.junction_widths = widths.all;
  if (job.stock_output()) return stock_config(std::move(output), source, job, widths);
  if (widths.mapped_count == 0) return whole_config(std::move(output));
  return mapped_config(std::move(output), source, job, widths);
}

NetSize net_size(const ModelConfig& config, const ResolvedJob& job, const JunctionWidths& widths) {
  NetSize size;
  size.dense_parameters = stored_parameters(config);
  size.dense_bytes = size.dense_parameters * size_in_bytes(job.model.dtype);
  size.compressed_parameters = stored_parameters(output_model_config(config, job, widths));
  size.compressed_bytes = size.compressed_parameters * size_in_bytes(job.output.dtype);
  return size;
}

int64_t largest_bytes(double size, int64_t dense_bytes) {
  // 0.7 * 10 may be a little below 7.
  constexpr double kSlack = 1e-3;
  return static_cast<int64_t>(std::floor(size * static_cast<double>(dense_bytes) + kSlack));
}

std::string size_warning(const NetSize& size, const ResolvedJob& job) {
  if (size.is_smaller()) return "";
  std::string text = fmt::format(
      "the result, {} bytes ({} parameters as {}), is not smaller than the dense model, {} bytes "
      "({} parameters as {})",
      with_separators(size.compressed_bytes), with_separators(size.compressed_parameters),
      to_string(job.output.dtype), with_separators(size.dense_bytes),
      with_separators(size.dense_parameters), to_string(job.model.dtype));
  std::vector<std::string> remedies = {"a smaller width"};
  if (!job.stock_output()) {
    remedies.push_back("one map for all (output.format: stock), which needs no shortcuts");
  }
  if (size_in_bytes(job.output.dtype) > size_in_bytes(job.model.dtype)) {
    remedies.push_back("output.dtype: same");
  }
  remedies.push_back("method.size, which finds the width for a size");
  return text + "; what helps: " + listed(remedies);
}

}  // namespace dotresize
