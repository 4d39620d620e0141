#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "base/phase_clock.h"
#include "job/plan/shards/rank_shard.h"
#include "worker/transformer/gradient/loss_gradient.h"
#include "worker/transformer/stage/stage.h"

namespace dotresize {

/// Windows to stream through the model, and the loss to differentiate.
struct LossOfWindows {
  const at::Tensor& windows;  ///< [samples, seqlen] int64
  /// Returns the gradient at the last junction. Called on the last rank only.
  LastGradient gradient;
  /// Selects the tensors that a stage keeps for a microbatch. It does not change the results.
  Checkpoints checkpoints = Checkpoints::kSublayers;
  /// Called with SublayerGradients::updates of each sublayer and microbatch. May be null.
  std::function<void(int64_t sublayer, const std::vector<at::Tensor>& gradients)> visit_updates =
      nullptr;
};

/// Runs the pipeline schedule with its backward pass. Microbatches flow through the stages of all
/// ranks, and the gradients of the loss flow back. `visit`: as in stream_through_stages; may be
/// null. `visit_gradient` receives the gradient of the same junction and microbatch, of the same
/// shape; behind a sublayer with a post-norm that of what its out_proj writes, over
/// post_norm_factor. At most R - r microbatches are in flight on rank r of R. `after_microbatch`
/// gets the tokens of each microbatch twice. The backward pass is the phase "backward". Inference
/// mode is off during the call; `stage` and the loss's tensors must not be made in it.
/// `visit_features`: called in the forward pass.
void stream_gradients(Communicator& comm, const ModelConfig& config, const Stage& stage,
                      const LossOfWindows& loss, const JunctionVisitor& visit,
                      const JunctionVisitor& visit_gradient,
                      const std::function<void(int64_t tokens)>& after_microbatch,
                      PhaseClock& clock, const SublayerVisitor& visit_features = nullptr);

}  // namespace dotresize
