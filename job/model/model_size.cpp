#include "job/model/model_size.h"

#include "job/model/tensor_table.h"

namespace dotresize {
namespace {

int64_t elements_of(const std::vector<TensorRow>& rows, int64_t k_in, int64_t k_out,
                    int64_t experts) {
  int64_t elements = 0;
  for (const TensorRow& row : rows) elements += elements_of(row, k_in, k_out, experts);
  return elements;
}

int64_t sublayer_elements(const ModelConfig& config, int64_t sublayer, SublayerForm form,
                          int64_t k_in, int64_t k_out) {
  return elements_of(sublayer_rows(config, sublayer, form), k_in, k_out,
                     config.mixture ? config.mixture->experts : 0);
}

}  // namespace

int64_t sublayer_parameters(const ModelConfig& config, int64_t sublayer, int64_t k_in,
                            int64_t k_out, bool folded) {
  return sublayer_elements(config, sublayer, folded ? SublayerForm::kFolded : SublayerForm::kDense,
                           k_in, k_out);
}

int64_t active_parameters(const ModelConfig& config, int64_t sublayer) {
  return elements_of(sublayer_rows(config, sublayer, SublayerForm::kDense), config.hidden_size,
                     config.hidden_size, config.mixture ? config.mixture->experts_per_token : 0);
}

int64_t shard_parameters(const ModelConfig& config, int64_t first, int64_t end) {
  const std::vector<int64_t>& widths = config.form.junction_widths;
  int64_t total = 0;
  if (first == 0) total += elements_of(embedding_rows(config), 0, widths.front(), 0);
  for (int64_t s = first; s < end; ++s) {
    total += sublayer_elements(config, s, stored_form(config, s), widths[s], widths[s + 1]);
  }
  if (end == config.num_sublayers()) total += elements_of(head_rows(config), widths.back(), 0, 0);
  return total;
}

int64_t end_parameters(const ModelConfig& config) {
  const std::vector<int64_t>& widths = config.form.junction_widths;
  const int64_t both = elements_of(embedding_rows(config), 0, widths.front(), 0) +
                       elements_of(head_rows(config), widths.back(), 0, 0);
  return config.tie_word_embeddings ? both - config.vocab_size * config.embedding_width() : both;
}

ModelConfig with_tied_ends(const ModelConfig& config, bool projects_head) {
  ModelConfig tied = config;
  tied.form.embedding_projection = true;
  tied.form.head_projection = projects_head;
  return tied;
}

ModelConfig with_smaller_ends(const ModelConfig& config, bool projects_head) {
  if (!config.tie_word_embeddings) return config;
  ModelConfig untied = config;
  untied.tie_word_embeddings = false;
  ModelConfig tied = with_tied_ends(config, projects_head);
  return end_parameters(tied) <= end_parameters(untied) ? tied : untied;
}

int64_t stored_parameters(const ModelConfig& config) {
  const int64_t parameters = shard_parameters(config, 0, config.num_sublayers());
  return config.tie_word_embeddings ? parameters - config.vocab_size * config.embedding_width()
                                    : parameters;
}

}  // namespace dotresize
