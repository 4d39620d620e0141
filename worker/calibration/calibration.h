#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "base/phase_clock.h"
#include "job/model/model_config.h"
#include "job/model/tensor_table.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/allocate/shortcut_forms.h"
#include "job/plan/shard_plan.h"
#include "worker/calibration/journal.h"
#include "worker/checkpoint/reader.h"
#include "worker/comm/communicator.h"
#include "worker/maps/junction_map.h"
#include "worker/transformer/loss_gradient.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// The first of the junctions that have one map with this one. `sharing`:
/// ModelConfig::junction_groups; empty: each has its own.
int64_t first_with_same_map(const std::vector<int64_t>& sharing, int64_t junction);

/// What all schedules work from. References outlive the call.
struct CalibrationJob {
  const ModelConfig& config;       ///< of the dense model
  const CheckpointReader& reader;  ///< its weights
  const ShardPlan& plan;           ///< one shard per rank of the communicator
  Journal& journal;                ///< of this rank; what is in it is not computed again
  /// The junctions that every rank found solved and described in the journal when it started.
  std::set<int64_t> finished;
  at::Tensor windows;  ///< [samples, seqlen] int64, the same on every rank
  MapOptions map;
  JunctionWidths widths;  ///< of the output
  at::ScalarType compute_dtype = at::kFloat;
  /// As ModelConfig::junction_groups: which junctions share a map. calibrate_pipeline only.
  std::vector<int64_t> sharing = {};
  /// What another job has found at the junctions: no token goes through the model. Null: nothing.
  /// calibrate_pipeline only (statistics.h).
  const Journal* statistics = nullptr;
  /// Where the first round of an allocation is kept for other jobs, which `size` does not change:
  /// statistics that are saved or used. Null: in `journal`.
  Journal* first_round = nullptr;
  std::vector<int64_t> window_numbers = {};  ///< as LossOfWindows::numbers
  /// Whether sublayers are cut for a trial of an allocation alone: the journal has them beside
  /// those of the output.
  bool for_trial = false;
  /// Whether sublayers are cut once more, after their trial: `windows` are all of them, and
  /// features go in the order of their sums.
  bool refits = false;
  Shortcuts shortcuts = {};
  at::Device device = at::kCPU;             ///< of this rank, and of the tensors of `comm`
  at::ScalarType fold_dtype = at::kDouble;  ///< of maps and weights in folding (maps/fold.h)

  /// Costs in half precision are worth a try on a GPU that computes with 16 bits anyway.
  bool tries_half_costs() const {
    return device.is_cuda() && (compute_dtype == at::kHalf || compute_dtype == at::kBFloat16);
  }
  /// Whether Gram matrices of one rank's tokens are packed (maps/moments.h): likewise.
  bool packs_sums() const { return tries_half_costs(); }
  Journal& first_round_journal() const { return first_round ? *first_round : journal; }
  /// Of this rank.
  const RankShard& shard(const Communicator& comm) const { return plan.of_rank(comm.rank()); }
  /// Junctions 0 .. mapped_junctions()-1 get a map.
  int64_t mapped_junctions() const { return widths.mapped_count; }
  /// Whether the junctions that the sublayer reads and writes have one map.
  bool shares_map(int64_t sublayer) const { return in_one_group(sharing, sublayer); }
  /// The first of the junctions that share this one's map: the map's name in the journal.
  int64_t map_of(int64_t junction) const { return first_with_same_map(sharing, junction); }
  /// The form of each shortcut, by sublayer of the output.
  std::vector<ShortcutForm> shortcut_forms() const;
  /// That of the junction from the journal, in the fold dtype on the device.
  JunctionMap load_map(int64_t junction) const;
};

/// Takes the folded weights, in the fold dtype, of the sublayers that this rank owns, each as soon
/// as it is ready.
class FoldedModelSink {
 public:
  virtual ~FoldedModelSink() = default;
  /// Called first. Collective.
  virtual void begin(const JunctionWidths& widths) = 0;
  /// The model that is written, after begin(): it says which tensors its ends have.
  virtual const ModelConfig& output() const = 0;
  /// Rows of the embedding and of the head from `first` on: blocks in ascending order. A tied head
  /// has none.
  virtual void put_embedding_rows(int64_t first, const at::Tensor& rows) = 0;
  virtual void put_head_rows(int64_t first, const at::Tensor& rows) = 0;
  /// A projection of the embedding or the head, or the final norm's weight, as it is stored.
  virtual void put_end(TensorRole role, const at::Tensor& tensor) = 0;
  virtual void put_sublayer(const SublayerWeights& weights) = 0;
};

/// Callbacks on the thread of the schedule; they must be quick.
struct CalibrationObserver {
  /// One more piece of `tokens` has gone through the rank's part of the model.
  std::function<void(int64_t tokens)> tokens_seen;
  /// So many more junctions are solved, on all ranks together. The same calls on every rank.
  std::function<void(int64_t junctions)> junctions_solved;
  /// Likewise; an interrupted run has solved them.
  std::function<void(int64_t junctions)> junctions_found;
};

// The schedules (docs/method.md, "Which activations"; docs/architecture.md, "Three schedules").
// Every map ends up in the journal, with its junctions' diagnostics. Collective.

/// `activations: original`: maps see the dense model; ranks are pipeline stages.
void calibrate_pipeline(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                        const CalibrationObserver& observer, PhaseClock& clock);

/// Likewise, if no rank has memory for its stage: ranks share the tokens and take them through one
/// dense sublayer after the other.
void calibrate_layerwise(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                         const CalibrationObserver& observer, PhaseClock& clock);

/// `activations: compressed`: each map sees the error of those before it; ranks share the tokens.
void calibrate_token_parallel(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                              const CalibrationObserver& observer, PhaseClock& clock);

/// A model no junction of which becomes narrower: what was cut inside its sublayers, and else its
/// source. Collective.
void write_without_maps(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                        PhaseClock& clock);

using CalibrateFunction = decltype(&calibrate_pipeline);

/// What runs the schedule (job/plan/schedule.h) of this name. Throws std::invalid_argument if there
/// is no such schedule.
CalibrateFunction calibrate_function(std::string_view schedule);

}  // namespace dotresize
