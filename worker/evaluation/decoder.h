#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/evaluation/whole_model.h"
#include "worker/transformer/key_value_cache.h"
#include "worker/transformer/rotary.h"

namespace dotresize {

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
