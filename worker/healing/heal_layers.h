#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "base/phase_clock.h"
#include "job/plan/healing.h"
#include "job/report/report_entries.h"
#include "worker/calibration/calibration_job.h"
#include "worker/checkpoint/reader.h"
#include "worker/checkpoint/writer.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// An output whose layers are distilled. References outlive the call.
struct LayerHealingJob {
  /// Its journal has the maps, and receives the layers. Its `widths` are those of the output.
  const CalibrationJob& calibration;
  const CheckpointReader& dense;
  const ModelConfig& dense_config;
  const CheckpointReader& folded;  ///< the output as written, before healing
  const ModelConfig& output;
  at::Tensor fitted;  ///< [samples, seqlen] int64, the same on every rank, as `held_out`
  at::Tensor held_out;
  Healing options;
};

struct LayerHealingObserver {
  /// Number of tokens, on all ranks, whose gradients were computed or skipped.
  std::function<void(int64_t tokens)> tokens_seen;
  /// Called on every rank. `found`: an interrupted run has distilled the layer.
  std::function<void(const HealedLayerReport& layer, bool found)> layer_healed;
};

/// Distils the decoder layers in order, and writes them to the journal: `healed-L` has the tensors
/// of a layer that improved, `healing-L` its report. Layers in the journal are not distilled again.
/// Ranks share the windows. Returns the reports of all layers, on every rank. Collective.
std::vector<HealedLayerReport> heal_layers(Communicator& comm, const LayerHealingJob& job,
                                           const LayerHealingObserver& observer, PhaseClock& clock);

/// Writes the journal's layers into the shards of `dir`, which must be complete. Ranks share the
/// work. Collective.
void write_healed_layers(Communicator& comm, const Journal& journal, const ModelConfig& output,
                         const std::vector<HealedLayerReport>& layers,
                         const std::filesystem::path& dir, const ShardLayout& layout);

}  // namespace dotresize
