#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "base/phase_clock.h"
#include "worker/transformer/loss_gradient.h"
#include "worker/transformer/stage.h"

namespace dotresize {

/// What flows through the model and whose loss is differentiated.
struct LossOfWindows {
  const at::Tensor& windows;  ///< [samples, seqlen] int64
  const HeadWeights& head;    ///< in the compute dtype on the stage's device; last rank only
  /// The stage keeps only its own input of a microbatch under way, and computes the inputs of its
  /// sublayers again when the microbatch comes back.
  bool recompute = false;
  /// With `recompute`: called with x of each junction when it is computed again. May be null.
  JunctionVisitor visit_again = nullptr;
};

/// The pipeline schedule with its way back: microbatches flow through the stages of all ranks, and
/// the gradients of the loss from the last to the first. `visit` as in stream_through_stages, and
/// `visit_gradient` with the gradient of the same junction and microbatch, of the same shape;
/// `visit` may be null. A rank keeps what its sublayers read of the microbatches that are under
/// way: as many as there are ranks behind it, and one. `after_microbatch` gets its tokens twice.
/// The way back is the phase "backward". `stage` and head must not be made in inference mode, which
/// is off as long as this runs. `visit_features`: on the way forward.
void stream_gradients(Communicator& comm, const ModelConfig& config, const Stage& stage,
                      const LossOfWindows& loss, const JunctionVisitor& visit,
                      const JunctionVisitor& visit_gradient,
                      const std::function<void(int64_t tokens)>& after_microbatch,
                      PhaseClock& clock, const SublayerVisitor& visit_features = nullptr);

}  // namespace dotresize
