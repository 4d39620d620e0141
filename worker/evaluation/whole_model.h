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

/// Every weight of a model in one process, dense or compressed. Jobs hold a part of it each; this
/// is for looking at one model.
struct WholeModel {
  ModelConfig config;
  EmbeddingWeights embedding;
  std::vector<SublayerWeights> sublayers;
  HeadWeights head;
};

/// Throws InputError as the functions of load.h do.
WholeModel load_whole_model(const CheckpointReader& reader, const ModelConfig& config,
                            at::ScalarType dtype);

/// The stream at the last junction, [batch, tokens, k_2L] float32. ids: [batch, tokens] int64.
at::Tensor last_stream(const WholeModel& model, const at::Tensor& ids);

/// [batch, tokens, vocab] float32.
at::Tensor logits(const WholeModel& model, const at::Tensor& ids);

/// Reads sequences a few tokens at a time, keeping the keys and values of what it has read: what a
/// model does when it generates. Any split of a sequence gives the logits of the whole one, up to
/// rounding. Not thread-safe.
class Decoder {
 public:
  /// `batch` sequences of up to `capacity` tokens, rotated as in a window of that many if the
  /// frequencies depend on it. `model` must outlive the decoder.
  Decoder(const WholeModel& model, int64_t batch, int64_t capacity);

  /// The next tokens of each sequence: ids [batch, tokens] int64. Returns the logits after the last
  /// one, [batch, vocab] float32. Throws c10::Error beyond the capacity.
  at::Tensor read(const at::Tensor& ids);

 private:
  const WholeModel& model_;
  RotaryTable rotary_;                 // of all positions
  std::vector<KeyValueCache> caches_;  // by layer
};

}  // namespace dotresize
