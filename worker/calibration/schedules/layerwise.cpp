#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "worker/calibration/calibration.h"
#include "worker/calibration/fold_stage.h"
#include "worker/calibration/schedules/token_parallel_moments.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {
namespace {

/// Collects junctions until as many ranks have one to solve as the memory allows. These ranks then
/// decompose and solve side by side.
class JunctionsSideBySide {
 public:
  JunctionsSideBySide(Communicator& comm, const CalibrationJob& job,
                      const CalibrationObserver& observer, PhaseClock& clock)
      : comm_(comm),
        job_(job),
        observer_(observer),
        clock_(clock),
        recorder_(job.journal, job.fold_dtype, job.device, !job.shard(comm).overlaps) {}

  /// x [., ., d]: this rank's share of the stream at the junction. Collective.
  void add(int64_t junction, const Microbatches& x);
  /// Waits until all junctions are in the journal. Collective.
  void finish();

 private:
  void solve();

  Communicator& comm_;
  const CalibrationJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  JunctionRecorder recorder_;
  std::map<int64_t, JunctionOverRanks> waiting_;  ///< by junction; each owner has at most one
};

void JunctionsSideBySide::add(int64_t junction, const Microbatches& x) {
  if (job_.finished.contains(junction)) return observer_.junctions_found(1);
  const int owner = rank_in_turn(comm_, junction);
  const bool waits = std::ranges::any_of(
      waiting_, [&](const auto& other) { return other.second.owner() == owner; });
  if (waits) solve();  // happens if junctions in between were found in the journal
  waiting_.try_emplace(junction, comm_, job_, junction, x, owner, clock_);
  if (std::ssize(waiting_) >= job_.shard(comm_).solved_together) solve();
}

void JunctionsSideBySide::solve() {
  for (auto& [junction, passes] : waiting_) passes.decompose();
  for (auto& [junction, passes] : waiting_) passes.second_pass();
  for (auto& [junction, passes] : waiting_) {
    if (std::optional<SolvedJunction> solved = passes.solve()) {
      recorder_.record(junction, std::move(*solved));
    }
    observer_.junctions_solved(1);
  }
  waiting_.clear();
}

void JunctionsSideBySide::finish() {
  solve();
  recorder_.finish();
}

}  // namespace

void calibrate_layerwise(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                         const CalibrationObserver& observer, PhaseClock& clock) {
  sink.begin(job.widths);
  JunctionsSideBySide junctions(comm, job, observer, clock);
  const RotaryTable rotary =
      to_device(make_rotary_table(job.config, job.windows.size(1)), job.device);
  Microbatches x = embed_share(comm, job, job.compute_dtype, clock);
  junctions.add(0, x);
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
    junctions.add(sublayer + 1, x);
  }
  junctions.finish();
  x.clear();
  comm.barrier();  // every map is in the journal
  fold_stage(comm, job, sink, clock);
}

}  // namespace dotresize
