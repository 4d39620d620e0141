#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "job/model/tensor_table.h"
#include "worker/calibration/fold_stage.h"
#include "worker/calibration/schedules/schedules.h"
#include "worker/calibration/schedules/token_parallel_moments.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {
namespace {

/// State of the loop over the sublayers. Ranks take turns: one solves and describes a junction, and
/// one reads a sublayer, while the others go on with the next ones.
struct TokenParallelRun {
  /// Gets the junction's map on every rank, from the journal or from x [., ., d] of all ranks, and
  /// replaces x by x·M.
  void solve(int64_t junction, Microbatches& x);
  /// Takes x through the sublayer. Its in_proj is folded with the map of the last junction; its
  /// out_proj has the full width.
  void forward(int64_t sublayer, Microbatches& x);

  Communicator& comm;
  const CalibrationJob& job;
  const CalibrationObserver& observer;
  PhaseClock& clock;
  LayerContext context = make_layer_context(job.config, job.windows.size(1), job.device);
  JunctionMap map = JunctionMap();  ///< map of the last junction, in the fold dtype
  /// The stream ends at the last junction that has a map.
  SublayerLoader loader{job.reader, job.config,  job.fold_dtype,
                        job.device, comm.rank(), job.widths.mapped_count - 1,
                        comm.size()};
  JunctionRecorder recorder{job.journal, job.fold_dtype, job.device, !job.shard(comm).overlaps};
};

void TokenParallelRun::solve(int64_t junction, Microbatches& x) {
  map = JunctionMap();
  const bool found = job.finished.contains(junction);
  if (found) {
    map = job.load_map(junction);
  } else {
    const int owner = rank_in_turn(comm, junction);
    at::Tensor M;
    JunctionOverRanks passes(comm, job, junction, x, owner, clock);
    passes.decompose();
    passes.second_pass();
    if (std::optional<SolvedJunction> solved = passes.solve()) {
      M = solved->solution.map.M.to(job.fold_dtype);
      recorder.record(junction, std::move(*solved));
    }
    const int64_t width = job.widths.all.at(static_cast<size_t>(junction));
    map = JunctionMap(broadcast_tensor(comm, M, {job.config.hidden_size, width},
                                       at::dtype(job.fold_dtype).device(job.device), owner));
  }
  const PhaseClock::Scope scope(clock, "forward");
  const at::Tensor M = map.M.to(at::kFloat);
  for (at::Tensor& batch : x) batch = at::matmul(batch, M);
  found ? observer.junctions_found(1) : observer.junctions_solved(1);
}

void TokenParallelRun::forward(int64_t sublayer, Microbatches& x) {
  const int owner = rank_in_turn(comm, sublayer);
  SublayerWeights folded;  // in the compute dtype, on the rank that reads the sublayer
  if (owner == comm.rank()) {
    SublayerWeights weights;
    {
      const PhaseClock::Scope scope(clock, "read");
      weights = loader.next();
    }
    const PhaseClock::Scope scope(clock, "fold");
    folded = to_device(to_dtype(fold_input(weights, map.M_inv), job.compute_dtype), job.device);
  }
  const int64_t width = job.widths.all.at(static_cast<size_t>(sublayer));
  const SublayerWeights weights = broadcast_sublayer(
      comm,
      sublayer_tensors(job.config, sublayer, SublayerForm::kFolded, width, job.config.hidden_size),
      folded, sublayer, job.compute_dtype, job.device, owner);
  folded = {};
  const PhaseClock::Scope scope(clock, "forward");
  for (at::Tensor& batch : x) {
    batch = sublayer_forward(job.config, weights, context, batch);
    observer.tokens_seen(batch.size(0) * batch.size(1));
  }
}

}  // namespace

void calibrate_token_parallel(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                              const CalibrationObserver& observer, PhaseClock& clock) {
  sink.begin(job.widths);
  {
    TokenParallelRun run{comm, job, observer, clock};
    Microbatches x = embed_share(comm, job, at::kFloat, clock);
    run.solve(0, x);
    for (int64_t sublayer = 0; sublayer + 1 < job.widths.mapped_count; ++sublayer) {
      run.forward(sublayer, x);
      run.solve(sublayer + 1, x);
    }
    run.recorder.finish();
  }
  comm.barrier();  // every map is in the journal
  fold_stage(comm, job, sink, clock);
}

}  // namespace dotresize
