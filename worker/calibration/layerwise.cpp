#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "worker/calibration/calibration.h"
#include "worker/calibration/fold_stage.h"
#include "worker/calibration/token_parallel_moments.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {

void calibrate_layerwise(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                         const CalibrationObserver& observer, PhaseClock& clock) {
  sink.begin(job.widths);
  JunctionRecorder recorder(job.journal, job.fold_dtype, job.device, !job.shard(comm).overlaps);
  const auto solve = [&](int64_t junction, const Microbatches& x) {
    if (job.finished.contains(junction)) {
      observer.junctions_found(1);
    } else {
      const int owner = rank_in_turn(comm, junction);
      std::optional<SolvedJunction> solved = solve_over_ranks(comm, job, junction, x, owner, clock);
      if (solved) recorder.record(junction, std::move(*solved));
      observer.junctions_solved(1);
    }
  };

  const RotaryTable rotary =
      to_device(make_rotary_table(job.config, job.windows.size(1)), job.device);
  Microbatches x = embed_share(comm, job, job.compute_dtype, clock);
  solve(0, x);
  SublayerStream sublayers(comm, job.reader, job.config, job.compute_dtype, job.device);
  for (int64_t sublayer = 0; sublayer + 1 < job.mapped_junctions(); ++sublayer) {
    {
      const PhaseClock::Scope scope(clock, "forward");
      const SublayerWeights weights = sublayers.next();
      for (at::Tensor& batch : x) {
        batch = sublayer_forward(job.config, weights, rotary, batch);
        observer.tokens_seen(batch.size(0) * batch.size(1));
      }
    }
    solve(sublayer + 1, x);
  }
  recorder.finish();
  x.clear();
  comm.barrier();  // every map is in the journal
  fold_stage(comm, job, sink, clock);
}

}  // namespace dotresize
