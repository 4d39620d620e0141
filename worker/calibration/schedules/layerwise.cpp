#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "worker/calibration/fold_stage.h"
#include "worker/calibration/schedules/schedules.h"
#include "worker/calibration/schedules/token_parallel_moments.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {

void calibrate_layerwise(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                         const CalibrationObserver& observer, PhaseClock& clock) {
  sink.begin(job.widths);
  {
    JunctionRecorder recorder(job.journal, job.fold_dtype, job.device, !job.shard(comm).overlaps);
    // Junctions wait until as many ranks have one to solve as the memory allows. These ranks then
    // decompose and solve side by side. Each owner has at most one.
    std::map<int64_t, JunctionOverRanks> waiting;
    const auto solve = [&] {
      for (auto& [junction, passes] : waiting) passes.decompose();
      for (auto& [junction, passes] : waiting) passes.second_pass();
      for (auto& [junction, passes] : waiting) {
        if (std::optional<SolvedJunction> solved = passes.solve()) {
          recorder.record(junction, std::move(*solved));
        }
        observer.junctions_solved(1);
      }
      waiting.clear();
    };
    // x: this rank's share of the stream at the junction.
    const auto add = [&](int64_t junction, const Microbatches& x) {
      if (job.finished.contains(junction)) return observer.junctions_found(1);
      const int owner = rank_in_turn(comm, junction);
      const bool waits = std::ranges::any_of(
          waiting, [&](const auto& other) { return rank_in_turn(comm, other.first) == owner; });
      if (waits) solve();  // happens if junctions in between were found in the journal
      waiting.try_emplace(junction, comm, job, junction, x, owner, clock);
      if (std::ssize(waiting) >= job.shard(comm).solved_together) solve();
    };
    const LayerContext context = make_layer_context(job.config, job.windows.size(1), job.device);
    Microbatches x = embed_share(comm, job, job.compute_dtype, clock);
    add(0, x);
    SublayerStream sublayers(comm, job.reader, job.config, job.compute_dtype, job.device);
    for (int64_t sublayer = 0; sublayer + 1 < job.widths.mapped_count; ++sublayer) {
      {
        const PhaseClock::Scope scope(clock, "forward");
        const SublayerWeights weights = sublayers.next();
        for (at::Tensor& batch : x) {
          batch = sublayer_forward(job.config, weights, context, batch);
          observer.tokens_seen(batch.size(0) * batch.size(1));
        }
      }
      add(sublayer + 1, x);
    }
    solve();
    recorder.finish();
  }
  comm.barrier();  // every map is in the journal
  fold_stage(comm, job, sink, clock);
}

}  // namespace dotresize
