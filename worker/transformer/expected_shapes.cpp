#include "worker/transformer/expected_shapes.h"

#include "worker/transformer/stored_tensors.h"

namespace dotresize {

std::map<std::string, std::vector<int64_t>> expected_shapes(const ModelConfig& config) {
  const std::vector<int64_t>& widths = config.junction_widths;
  std::map<std::string, std::vector<int64_t>> shapes;
  shapes[kEmbeddingName] = {config.vocab_size, widths.front()};
  if (!config.tie_word_embeddings) shapes[kHeadName] = {config.vocab_size, widths.back()};
  if (!config.compressed) shapes[kFinalNormName] = {config.hidden_size};

  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    for (const StoredTensor& tensor : stored_tensors(config, s)) shapes[tensor.name] = tensor.shape;
  }
  return shapes;
}

}  // namespace dotresize
