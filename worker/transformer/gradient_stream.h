#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "base/phase_clock.h"
#include "job/plan/estimate/checkpoints.h"
#include "worker/transformer/loss_gradient.h"
#include "worker/transformer/stage.h"

namespace dotresize {

/// What flows through the model, and the loss that is differentiated.
struct LossOfWindows {
  const at::Tensor& windows;  ///< [samples, seqlen] int64
  /// The gradient at the last junction of the windows from the one of this number on; last rank
  /// only.
  LastGradient gradient;
  /// Selects what a stage keeps of a microbatch under way. It changes no bit of a result.
  Checkpoints checkpoints = Checkpoints::kSublayers;
  /// With Checkpoints::kStage: called with x of each junction when it is computed again. May be
  /// null.
  JunctionVisitor visit_again = nullptr;
  /// Called with SublayerGradients::updates of each sublayer and microbatch. May be null.
  std::function<void(int64_t sublayer, const std::vector<at::Tensor>& gradients)> visit_updates =
      nullptr;
};

/// The pipeline schedule with its way back: microbatches flow through the stages of all ranks, and
/// the gradients of the loss from the last to the first. `visit` as in stream_through_stages, and
/// `visit_gradient` with the gradient of the same junction and microbatch, of the same shape;
/// `visit` may be null. As many microbatches are under way as there are ranks behind a rank, and
/// one. `after_microbatch` gets its tokens twice. The way back is the phase "backward". `stage` and
/// what the loss needs must not be made in inference mode, which is off as long as this runs.
/// `visit_features`: on the way forward.
void stream_gradients(Communicator& comm, const ModelConfig& config, const Stage& stage,
                      const LossOfWindows& loss, const JunctionVisitor& visit,
                      const JunctionVisitor& visit_gradient,
                      const std::function<void(int64_t tokens)>& after_microbatch,
                      PhaseClock& clock, const SublayerVisitor& visit_features = nullptr);

}  // namespace dotresize
