#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "worker/checkpoint/reader.h"
#include "worker/transformer/attention.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// All weights of a model in one process, dense or compressed. For inspection of a single model;
/// jobs shard it over ranks.
struct WholeModel {
  ModelConfig config;
  EmbeddingWeights embedding;
  std::vector<SublayerWeights> sublayers;
  HeadWeights head;
};

/// Loads all weights. Throws InputError as the functions of load.h do.
WholeModel load_whole_model(const CheckpointReader& reader, const ModelConfig& config,
                            at::ScalarType dtype);

/// Returns rows of the embedding as the residual stream: [batch, seqlen, k_0] float32. ids: [batch,
/// seqlen] int64.
at::Tensor embed(const EmbeddingWeights& embedding, const at::Tensor& ids);

/// Returns the stream at the last junction, [batch, tokens, k_2L] float32. ids: [batch, tokens]
/// int64.
at::Tensor last_stream(const WholeModel& model, const at::Tensor& ids);

/// Returns the logits, [batch, tokens, vocab] float32.
at::Tensor logits(const WholeModel& model, const at::Tensor& ids);

/// Reads sequences a few tokens at a time, and caches their keys and values, as in generation. Any
/// split of a sequence gives the logits of the whole one, up to rounding. Not thread-safe.
class Decoder {
 public:
  /// Allocates `batch` sequences of up to `capacity` tokens. If the rotary frequencies depend on
  /// the window, they are those of a window of `capacity` tokens. `model` outlives the decoder.
  Decoder(const WholeModel& model, int64_t batch, int64_t capacity);

  /// Reads the next tokens of each sequence: ids [batch, tokens] int64. Returns the logits after
  /// the last one, [batch, vocab] float32. Throws c10::Error beyond the capacity.
  at::Tensor read(const at::Tensor& ids);

 private:
  const WholeModel& model_;
  LayerContext context_;               // all positions
  std::vector<KeyValueCache> caches_;  // by layer
};

}  // namespace dotresize
