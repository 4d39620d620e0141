#include "job/plan/net_size.h"

#include <fmt/format.h>

#include <cmath>

#include "base/errors.h"
#include "base/text/human_text.h"
#include "job/model/model_size.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/allocate/junction_widths.h"

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

NetSize net_size(const ModelConfig& source, const ModelConfig& output) {
  const TensorsSize dense = stored_size(source);
  const TensorsSize compressed = stored_size(output);
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
    const JunctionWidths widths =
        decided(uniform_widths(config, job.maps.head_sliced, k), config.hidden_size);
    net = net_size(config, output_model_config(config, job, widths));
    if (net.compressed_bytes <= largest_bytes(size, net.dense_bytes)) return k;
  }
  if (round_to > config.hidden_size) {
    throw InputError(
        job.target.asked.key,
        fmt::format("no width up to the hidden size, {}, is a multiple of {}; a smaller round_to "
                    "would do",
                    config.hidden_size, round_to));
  }
  job.target.asked.refuse(
      size, fmt::format("is not available: the smallest width, {}, gives {} of the dense model's "
                        "bytes",
                        round_to, size_text(net.bytes_fraction())));
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
  if (job.target.size || job.target.allocation) {
    remedies.push_back("method.size below 1");
  } else {
    remedies.push_back("a smaller width");
    if (!job.stock_output()) {
      remedies.push_back("one map for all (output.format: stock), which needs no shortcuts");
    }
    remedies.push_back("method.size, which finds the width for a size");
  }
  return text + "; remedies: " + listed(remedies);
}

}  // namespace dotresize
