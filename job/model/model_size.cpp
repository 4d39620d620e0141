#include "job/model/model_size.h"

#include <cmath>
#include <string>

#include "base/errors.h"
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
  const std::vector<int64_t>& widths = config.junction_widths;
  int64_t total = 0;
  if (first == 0) total += elements_of(embedding_row(config), 0, widths.front(), 0);
  for (int64_t s = first; s < end; ++s) {
    total += sublayer_elements(config, s, stored_form(config, s), widths[s], widths[s + 1]);
  }
  if (end == config.num_sublayers()) total += elements_of(head_rows(config), widths.back(), 0, 0);
  return total;
}

int64_t stored_parameters(const ModelConfig& config) {
  const int64_t parameters = shard_parameters(config, 0, config.num_sublayers());
  return config.tie_word_embeddings
             ? parameters - elements_of(embedding_row(config), 0, config.junction_widths.front(), 0)
             : parameters;
}

int64_t default_round_to(int64_t hidden_size) { return hidden_size >= 2048 ? 64 : 8; }

int64_t width_from_sparsity(double sparsity, int64_t hidden_size, int64_t round_to) {
  if (round_to == 0) round_to = default_round_to(hidden_size);
  const double multiples =
      (1.0 - sparsity) * static_cast<double>(hidden_size) / static_cast<double>(round_to);
  const int64_t width = static_cast<int64_t>(std::floor(multiples + 1e-9)) * round_to;
  if (width <= 0) {
    throw InputError("method.sparsity",
                     std::to_string(sparsity) + " of hidden size " + std::to_string(hidden_size) +
                         " leaves no width that is a multiple of " + std::to_string(round_to) +
                         "; a smaller sparsity, a smaller round_to or an explicit width would do");
  }
  return width;
}

}  // namespace dotresize
