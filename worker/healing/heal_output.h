#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>

#include "base/phase_clock.h"
#include "job/plan/healing.h"
#include "job/plan/shards/rank_shard.h"
#include "job/report/report_entries.h"
#include "worker/calibration/storage/journal.h"
#include "worker/checkpoint/reader.h"
#include "worker/checkpoint/writer.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// Windows of text, and the dense model's final states on them.
struct HealingWindows {
  at::Tensor ids;  ///< [samples, seqlen] int64, the same on every rank
  /// Returns the dense model's final states of a microbatch, as passed to
  /// CheckpointEvaluation::keep. Called on the last rank.
  std::function<at::Tensor(int64_t microbatch)> states;
};

/// An output to distil (docs/method.md, "Healing"). References outlive the call.
struct HealingJob {
  Journal& journal;
  const RankShard& shard;  ///< sublayers that this rank trains
  const CheckpointReader& dense;
  const ModelConfig& dense_config;
  const CheckpointReader& folded;  ///< the output as written, before healing
  const ModelConfig& output;
  HealingWindows fitted;
  HealingWindows held_out;
  Healing options;
  at::ScalarType compute_dtype;
  at::Device device;
  int cores = 0;  ///< cores for this rank while other ranks wait; 0: its number of threads stays
};

struct HealingObserver {
  /// Number of tokens whose gradients were computed, multiplied by the number of layers. On every
  /// rank.
  std::function<void(int64_t tokens)> tokens_seen;
  /// KL on the held-out windows after this number of epochs. `found`: an interrupted run has
  /// trained them. On every rank.
  std::function<void(int64_t epochs, double kl, bool found)> epoch_ended;
};

/// Trains low-rank updates of the output's weights, and writes them to the journal: `updates-E-S`
/// has the updates of sublayer S after epoch E, `updates-E` the held-out losses, `updates-share`
/// the chosen share of the updates. Epochs in the journal are not trained again. Ranks are stages
/// of a pipeline. The result does not depend, bit by bit, on their number or on interruptions.
/// Returns the report, on every rank. Inference mode must be off. Throws std::runtime_error if
/// gradients are not finite. Collective.
HealingReport heal_output(Communicator& comm, const HealingJob& job,
                          const HealingObserver& observer, PhaseClock& clock);

/// Writes the weights with the chosen share of the updates into the shards of `dir`, which must be
/// complete. Writes nothing if the share is 0. Collective.
void write_healed(Communicator& comm, const HealingJob& job, const HealingReport& report,
                  const std::filesystem::path& dir, const ShardLayout& layout);

}  // namespace dotresize
