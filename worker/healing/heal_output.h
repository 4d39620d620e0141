#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>

#include "base/phase_clock.h"
#include "job/plan/healing.h"
#include "job/plan/shard_plan.h"
#include "job/report/report_entries.h"
#include "worker/calibration/journal.h"
#include "worker/checkpoint/reader.h"
#include "worker/checkpoint/writer.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// Windows of text, and the dense model's predictions.
struct HealingWindows {
  at::Tensor ids;  ///< [samples, seqlen] int64, the same on every rank
  /// The dense model's final states of a microbatch, as CheckpointEvaluation::keep gets them; on
  /// the last rank.
  std::function<at::Tensor(int64_t microbatch)> states;
};

/// An output that is distilled (docs/method.md, "Healing"). References outlive the call.
struct HealingJob {
  Journal& journal;
  const RankShard& shard;  ///< whose sublayers the rank trains
  const CheckpointReader& dense;
  const ModelConfig& dense_config;
  const CheckpointReader& folded;  ///< the output as it was written
  const ModelConfig& output;
  HealingWindows fitted;
  HealingWindows held_out;
  Healing options;
  at::ScalarType compute_dtype;
  at::Device device;
  int cores = 0;  ///< cores for this rank while others wait; 0: its threads stay
};

struct HealingObserver {
  /// Tokens whose gradients were taken, once for each layer. On every rank.
  std::function<void(int64_t tokens)> tokens_seen;
  /// The KL on the held-out windows after so many epochs; `found`: an interrupted run has trained
  /// them. On every rank.
  std::function<void(int64_t epochs, double kl, bool found)> epoch_ended;
};

/// Trains low-rank updates of the output's weights into the journal, of every epoch `updates-E-S`
/// for each sublayer and `updates-E` for all, and how much of them is taken, `updates-share`.
/// Epochs that are there are not trained again. The ranks are stages of a pipeline; neither their
/// number nor an interruption changes a bit. Returns the report, on every rank. Outside of
/// inference mode. Throws std::runtime_error if gradients are not finite. Collective.
HealingReport heal_output(Communicator& comm, const HealingJob& job,
                          const HealingObserver& observer, PhaseClock& clock);

/// Writes the weights with the share of the updates that is taken into the shards of `dir`, which
/// are whole; nothing if that is none. Collective.
void write_healed(Communicator& comm, const HealingJob& job, const HealingReport& report,
                  const std::filesystem::path& dir, const ShardLayout& layout);

}  // namespace dotresize
