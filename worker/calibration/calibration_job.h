#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "base/phase_clock.h"
#include "job/model/model_config.h"
#include "job/model/tensor_table.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/shards/rank_shard.h"
#include "worker/calibration/storage/journal.h"
#include "worker/checkpoint/reader.h"
#include "worker/comm/communicator.h"
#include "worker/maps/junction_map.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Input of all schedules. References outlive the call.
struct CalibrationJob {
  const ModelConfig& config;       ///< dense model
  const CheckpointReader& reader;  ///< weights of `config`
  const ShardPlan& plan;           ///< one shard per rank of the communicator
  Journal& journal;                ///< this rank's journal; its entries are not computed again
  /// Junctions that every rank found solved and described in the journal when it started.
  std::set<int64_t> finished;
  at::Tensor windows;  ///< [samples, seqlen] int64, the same on every rank
  MapOptions map;
  JunctionWidths widths;  ///< widths of the output; junctions 0 .. mapped_count-1 get a map
  at::ScalarType compute_dtype = at::kFloat;
  /// True if all junctions share one map, that of a stock output; calibrate_pipeline only. Else
  /// each has its own.
  bool shared_map = false;
  /// Results of an earlier job at the junctions (statistics.h). If set, no tokens go through the
  /// model. Null: not used. calibrate_pipeline only.
  const Journal* statistics = nullptr;
  std::vector<int64_t> window_numbers = {};  ///< window numbers, as in label_gradient()
  at::Device device = at::kCPU;              ///< device of this rank, and of the tensors of `comm`
  at::ScalarType fold_dtype = at::kDouble;   ///< dtype of maps and weights in folding (maps/fold.h)

  /// Returns true on a GPU with a 16-bit compute dtype, where Gram matrices of one rank's tokens
  /// are packed (maps/moments.h).
  bool halves_precision() const {
    return device.is_cuda() && (compute_dtype == at::kHalf || compute_dtype == at::kBFloat16);
  }
  /// Shard of this rank.
  const RankShard& shard(const Communicator& comm) const { return plan.of_rank(comm.rank()); }
  /// Number of the junction's map in the journal.
  int64_t map_of(int64_t junction) const { return shared_map ? kSharedMap : junction; }
  /// Loads the junction's map from the journal, in the fold dtype on the device.
  JunctionMap load_map(int64_t junction) const;
  // Tensors of the source, in the fold dtype on the device. `clock` counts the time as "read".
  /// Rows [first, first + count) of the embedding or the head.
  at::Tensor read_rows(const StoredTensor& matrix, int64_t first, int64_t count,
                       PhaseClock& clock) const;
  /// γ of the final norm, [d].
  at::Tensor read_final_norm(PhaseClock& clock) const;
};

/// Receives the folded weights of this rank's sublayers, in the fold dtype, each as soon as it is
/// ready.
class FoldedModelSink {
 public:
  virtual ~FoldedModelSink() = default;
  /// Called first. Collective.
  virtual void begin(const JunctionWidths& widths) = 0;
  /// Config of the model that is written; valid after begin(). It determines the tensors passed to
  /// put_end().
  virtual const ModelConfig& output() const = 0;
  /// Rows of the embedding or the head, starting at row `first`, in ascending order; a tied head
  /// gets no rows. Or a projection of one of them, or the weight of the final norm, as it is
  /// stored, with first = 0.
  virtual void put_end(TensorRole role, const at::Tensor& rows, int64_t first) = 0;
  virtual void put_sublayer(const SublayerWeights& weights) = 0;
};

/// Callbacks on the schedule's thread. They must be quick.
struct CalibrationObserver {
  /// `tokens` more tokens have gone through this rank's part of the model.
  std::function<void(int64_t tokens)> tokens_seen;
  /// `junctions` more junctions are solved, on all ranks together. Every rank gets the same calls.
  std::function<void(int64_t junctions)> junctions_solved;
  /// Same as junctions_solved, for junctions that an interrupted run had solved.
  std::function<void(int64_t junctions)> junctions_found;
  /// This rank has done so many of its stage's CutOperations (job/plan/steps/step.h).
  std::function<void(double operations)> operations_done = [](double) {};
};

}  // namespace dotresize
