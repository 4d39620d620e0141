#include "job/model/model_size.h"

#include <vector>

#include "job/model/tensor_table.h"

namespace dotresize {
namespace {

/// Size of the embedding and its projection.
TensorsSize embedding_size(const ModelConfig& config) {
  return total_size(embedding_rows(config), "", 0, config.form.junction_widths.front(), 0,
                    config.files.dtypes);
}

/// Size of the head and what is before it.
TensorsSize head_size(const ModelConfig& config) {
  std::vector<TensorRow> before = head_rows(config);
  before.pop_back();
  return total_size(before, "", config.form.junction_widths.back(), 0, 0, config.files.dtypes) +
         head_matrix_size(config);
}

}  // namespace

TensorsSize sublayer_size(const ModelConfig& config, int64_t sublayer, int64_t k_in, int64_t k_out,
                          bool folded) {
  const SublayerForm form = folded ? SublayerForm::kFolded : SublayerForm::kDense;
  return total_size(sublayer_rows(config, sublayer, form), name_prefix(sublayer), k_in, k_out,
                    mlp_count(config, sublayer), config.files.dtypes);
}

int64_t sublayer_parameters(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                            int64_t k_out, bool folded) {
  return sublayer_size(config, sublayer, k_in, k_out, folded).parameters;
}

int64_t active_parameters(const ModelConfig& config, int64_t sublayer) {
  return total_size(sublayer_rows(config, sublayer, SublayerForm::kDense), name_prefix(sublayer),
                    config.hidden_size, config.hidden_size, active_mlps(config, sublayer), {})
      .parameters;
}

int64_t prompt_multiplications(const ModelConfig& config) {
  int64_t sum = head_matrix_size(config).parameters;
  for (int64_t s = 0; s < config.num_sublayers(); ++s) sum += active_parameters(config, s);
  return sum;
}

TensorsSize embedding_matrix_size(const ModelConfig& config) {
  return total_size({embedding_rows(config).front()}, "", 0, 0, 0, config.files.dtypes);
}

TensorsSize head_matrix_size(const ModelConfig& config) {
  if (config.tie_word_embeddings) return embedding_matrix_size(config);
  return total_size({head_rows(config).back()}, "", config.form.junction_widths.back(), 0, 0,
                    config.files.dtypes);
}

TensorsSize shard_size(const ModelConfig& config, int64_t first, int64_t end) {
  const std::vector<int64_t>& widths = config.form.junction_widths;
  TensorsSize total;
  if (first == 0) total = embedding_size(config);
  for (int64_t s = first; s < end; ++s) {
    total = total + total_size(sublayer_rows(config, s, stored_form(config, s)), name_prefix(s),
                               widths[s], widths[s + 1], mlp_count(config, s), config.files.dtypes);
  }
  return end == config.num_sublayers() ? total + head_size(config) : total;
}

TensorsSize end_size(const ModelConfig& config) {
  const TensorsSize both = embedding_size(config) + head_size(config);
  return config.tie_word_embeddings ? both - embedding_matrix_size(config) : both;
}

ModelConfig with_smaller_ends(const ModelConfig& config, bool projects_head) {
  if (!config.tie_word_embeddings) return config;
  ModelConfig untied = config;
  untied.tie_word_embeddings = false;
  ModelConfig tied = config;
  tied.form.embedding_projection = true;
  tied.form.head_projection = projects_head;
  return end_size(tied).bytes <= end_size(untied).bytes ? tied : untied;
}

TensorsSize stored_size(const ModelConfig& config) {
  const TensorsSize all = shard_size(config, 0, config.num_sublayers());
  return config.tie_word_embeddings ? all - embedding_matrix_size(config) : all;
}

int64_t stored_parameters(const ModelConfig& config) { return stored_size(config).parameters; }

ModelConfig with_dtypes(ModelConfig config, const StoredDtypes& dtypes) {
  config.files.dtypes = dtypes;
  return config;
}

int64_t stored_bytes(const ModelConfig& config) { return stored_size(config).bytes; }

}  // namespace dotresize
