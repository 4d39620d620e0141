#include "job/plan/output_model_config.h"

namespace dotresize {

ModelConfig output_model_config(const ModelConfig& source, const ResolvedJob& job,
                                const JunctionWidths& widths) {
  ModelConfig output = source;
  output.tie_word_embeddings = false;
  output.dtype = to_string(job.output_dtype);
  output.junction_widths = widths.all;
  if (job.stock_output()) {
    // Σx²/k + eps·d/k is what the dense model's norm has under the root, times d/k.
    output.hidden_size = widths.largest();
    output.rms_norm_eps *=
        static_cast<double>(source.hidden_size) / static_cast<double>(output.hidden_size);
  } else {
    output.compressed = true;
    output.junction_groups = job.junction_groups;
  }
  return output;
}

}  // namespace dotresize
