#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "base/phase_clock.h"
#include "job/plan/healing.h"
#include "job/report/report_entries.h"
#include "worker/calibration/calibration.h"
#include "worker/checkpoint/reader.h"
#include "worker/checkpoint/writer.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// An output whose layers are to be distilled. References outlive the call.
struct LayerHealingJob {
  /// Its journal has the maps, and gets the layers; `widths` are the output's.
  const CalibrationJob& calibration;
  const CheckpointReader& dense;
  const ModelConfig& dense_config;
  const CheckpointReader& folded;  ///< the output as it was written
  const ModelConfig& output;
  at::ScalarType output_dtype;
  at::Tensor fitted;  ///< [samples, seqlen] int64, the same on every rank, as `held_out`
  at::Tensor held_out;
  Healing options;
};

struct LayerHealingObserver {
  /// Tokens of all ranks whose gradients were taken, or did not have to be.
  std::function<void(int64_t tokens)> tokens_seen;
  /// On every rank; `found`: an interrupted run has distilled it.
  std::function<void(const HealedLayerReport& layer, bool found)> layer_healed;
};

/// Distils one decoder layer after the other into the journal: `healed-L` are the tensors that
/// became better, `healing-L` what the report says. Those that are there are not distilled again.
/// Ranks share the windows. Returns what is said of each layer, on every rank. Collective.
std::vector<HealedLayerReport> heal_layers(Communicator& comm, const LayerHealingJob& job,
                                           const LayerHealingObserver& observer, PhaseClock& clock);

/// Writes the journal's layers into the shards of `dir`, which are whole. Ranks share the work.
/// Collective.
void write_healed_layers(Communicator& comm, const Journal& journal, const ModelConfig& output,
                         const std::vector<HealedLayerReport>& layers,
                         const std::filesystem::path& dir, const ShardLayout& layout);

}  // namespace dotresize
