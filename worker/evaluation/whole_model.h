#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "job/model/model_config.h"
#include "worker/checkpoint/reader.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Every weight of a model in one process, dense or compressed. Jobs hold a part of it each; this
/// is for looking at one model.
struct WholeModel {
  ModelConfig config;
  at::Tensor embedding;  ///< [vocab, k_0]
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

}  // namespace dotresize
