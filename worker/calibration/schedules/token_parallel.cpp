#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "job/model/tensor_table.h"
#include "worker/calibration/calibration.h"
#include "worker/calibration/schedules/token_parallel_moments.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {
namespace {

/// State of the loop over the sublayers. Ranks take turns: one solves and describes a junction, and
/// one reads a sublayer, while the others go on with the next ones.
class TokenParallelRun {
 public:
  TokenParallelRun(Communicator& comm, const CalibrationJob& job,
                   const CalibrationObserver& observer, PhaseClock& clock)
      : comm_(comm),
        job_(job),
        observer_(observer),
        clock_(clock),
        rotary_(make_rotary_table(job.config, job.windows.size(1), job.device)),
        // The stream ends at the last junction that has a map.
        loader_(job.reader, job.config, job.fold_dtype, job.device, job.widths.mapped_count - 1),
        recorder_(job.journal, job.fold_dtype, job.device, !job.shard(comm).overlaps) {}

  void run();

 private:
  /// Gets the junction's map on every rank, from the journal or from x [., ., d] of all ranks, and
  /// replaces x by x·M.
  void solve(int64_t junction, Microbatches& x);
  /// Takes x through the sublayer. Its in_proj is folded with the map of the last junction; its
  /// out_proj has the full width.
  void forward(int64_t sublayer, Microbatches& x);

  Communicator& comm_;
  const CalibrationJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  RotaryTable rotary_;
  JunctionMap map_;  ///< map of the last junction, in the fold dtype
  SublayerLoader loader_;
  JunctionRecorder recorder_;
};

void TokenParallelRun::solve(int64_t junction, Microbatches& x) {
  map_ = JunctionMap();
  const bool found = job_.finished.contains(junction);
  if (found) {
    map_ = job_.load_map(junction);
  } else {
    const int owner = rank_in_turn(comm_, junction);
    at::Tensor M;
    JunctionOverRanks passes(comm_, job_, junction, x, owner, clock_);
    passes.decompose();
    passes.second_pass();
    if (std::optional<SolvedJunction> solved = passes.solve()) {
      M = solved->solution.map.M.to(job_.fold_dtype);
      recorder_.record(junction, std::move(*solved));
    }
    const int64_t width = job_.widths.all.at(static_cast<size_t>(junction));
    map_ = JunctionMap(broadcast_tensor(comm_, M, {job_.config.hidden_size, width},
                                        at::dtype(job_.fold_dtype).device(job_.device), owner));
  }
  const PhaseClock::Scope scope(clock_, "forward");
  const at::Tensor M = map_.M.to(at::kFloat);
  for (at::Tensor& batch : x) batch = at::matmul(batch, M);
  found ? observer_.junctions_found(1) : observer_.junctions_solved(1);
}

void TokenParallelRun::forward(int64_t sublayer, Microbatches& x) {
  const int owner = rank_in_turn(comm_, sublayer);
  SublayerWeights folded;  // in the compute dtype, on the rank that reads the sublayer
  if (owner == comm_.rank()) {
    SublayerWeights weights;
    {
      const PhaseClock::Scope scope(clock_, "read");
      weights = loader_.take(sublayer);
      loader_.read_ahead(sublayer + comm_.size());
    }
    const PhaseClock::Scope scope(clock_, "fold");
    folded = to_device(to_dtype(fold_input(weights, map_.M_inv), job_.compute_dtype), job_.device);
  }
  const int64_t width = job_.widths.all.at(static_cast<size_t>(sublayer));
  const SublayerWeights weights =
      broadcast_sublayer(comm_,
                         sublayer_tensors(job_.config, sublayer, SublayerForm::kFolded, width,
                                          job_.config.hidden_size),
                         folded, sublayer, job_.compute_dtype, job_.device, owner);
  folded = {};
  const PhaseClock::Scope scope(clock_, "forward");
  for (at::Tensor& batch : x) {
    batch = sublayer_forward(job_.config, weights, rotary_, batch);
    observer_.tokens_seen(batch.size(0) * batch.size(1));
  }
}

void TokenParallelRun::run() {
  loader_.read_ahead(comm_.rank());
  Microbatches x = embed_share(comm_, job_, at::kFloat, clock_);
  solve(0, x);
  for (int64_t sublayer = 0; sublayer + 1 < job_.widths.mapped_count; ++sublayer) {
    forward(sublayer, x);
    solve(sublayer + 1, x);
  }
  recorder_.finish();
}

}  // namespace

void calibrate_token_parallel(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                              const CalibrationObserver& observer, PhaseClock& clock) {
  sink.begin(job.widths);
  TokenParallelRun(comm, job, observer, clock).run();
  comm.barrier();  // every map is in the journal
  fold_stage(comm, job, sink, clock);
}

}  // namespace dotresize
