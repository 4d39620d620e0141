#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "job/model/tensor_table.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Activation checkpoints for the way back (`metric: fisher`, `heal`): what a stage keeps of a
/// microbatch between its way forward and its way back. A stage that keeps less computes more
/// again.
enum class Checkpoints {
  kNone,       ///< everything that autograd keeps of each sublayer; nothing is computed again
  kSublayers,  ///< the input of each sublayer, which runs again on the way back
  kStage       ///< the input of the stage, which runs again as a whole before its sublayers do
};

/// Part of a job that one rank holds and does: sublayers [first_sublayer, end_sublayer), each with
/// the junction that it writes. The first rank also has the embedding with junction 0, the last one
/// the final norm and lm_head.
struct RankShard {
  int rank = 0;
  int64_t first_sublayer = 0;
  int64_t end_sublayer = 0;
  int64_t first_junction() const { return first_sublayer == 0 ? 0 : first_sublayer + 1; }
  /// Number of the rank's junctions among the model's first `mapped` ones, which have maps.
  int64_t junctions(int64_t mapped) const {
    return std::max<int64_t>(0, std::min(end_sublayer + 1, mapped) - first_junction());
  }
  /// End of the rank's sublayers that come before a mapped junction. The others need not run.
  int64_t end_run(int64_t mapped) const { return std::min(end_sublayer, mapped - 1); }
  TensorsSize size;  ///< size of the dense tensors that this rank loads
  /// Number of junctions whose moments fit in memory at a time (pipeline schedule).
  int64_t junctions_at_once = std::numeric_limits<int64_t>::max();
  /// Number of junctions that different ranks decompose and solve side by side. The rank must have
  /// memory for the streams of all of them (layerwise schedule).
  int64_t solved_together = 1;
  /// Number of sublayers whose feature moments fit in memory at a time (`method.mlp`,
  /// `method.allocate`).
  int64_t cuts_at_once = std::numeric_limits<int64_t>::max();
  /// True if the host has memory to keep the feature sums of all the rank's sublayers until they
  /// are cut (`method.allocate`).
  bool keeps_sums = false;
  /// Fewest checkpoints that fit in memory without an additional pass over the tokens (`metric:
  /// fisher`, `heal`).
  Checkpoints checkpoints = Checkpoints::kSublayers;
  /// True if a junction is recorded, and weights are written, while the next ones are computed.
  /// False if memory is too short for that.
  bool overlaps = true;
  int64_t peak_memory_bytes = 0;  ///< estimated peak of host memory
  /// Estimated peak of the rank's GPU memory, if it has or may have a GPU.
  std::optional<int64_t> peak_device_memory_bytes = {};
};

struct ShardPlan {
  std::vector<RankShard> ranks;
  /// Number of groups of junctions, each with its own passes over the tokens: as few as memory
  /// allows (pipeline schedule).
  int64_t junction_groups = 1;
  /// Number of groups of sublayers that may be cut, before the junctions; 0: none is cut.
  int64_t cut_groups = 0;
  /// Times that the features of a sublayer are summed. An allocation sums them for the curve, the
  /// trial and the output: once if the sums are kept, twice if statistics have the curve.
  int64_t cut_rounds = 1;
  int64_t cut_passes = 0;       ///< passes over the tokens for the features of all groups
  int64_t cut_passes_back = 0;  ///< number of cut_passes that also go back
  // Passes of an allocation over its held-out windows alone, which complete the sums for the
  // output.
  int64_t held_out_passes = 0;
  int64_t held_out_passes_back = 0;
  int64_t passes = 0;       ///< passes of the calibration tokens through the dense model
  int64_t passes_back = 0;  ///< number of `passes` that also go back

  const RankShard& of_rank(int rank) const { return ranks.at(static_cast<std::size_t>(rank)); }
};

/// True if every rank's peaks are within the job's budgets.
bool fits(const ShardPlan& plan, const ResolvedJob& job);

/// Largest peak of any rank.
int64_t peak_memory(const ShardPlan& plan);
int64_t peak_device_memory(const ShardPlan& plan);

}  // namespace dotresize
