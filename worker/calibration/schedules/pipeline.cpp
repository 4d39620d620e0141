#include <ATen/ATen.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "worker/calibration/calibration.h"
#include "worker/calibration/fold_stage.h"
#include "worker/calibration/junction_groups.h"
#include "worker/calibration/shared_maps.h"
#include "worker/calibration/storage/statistics.h"
#include "worker/maps/map_algorithm.h"

namespace dotresize {
namespace {

int64_t sum_over_ranks(Communicator& comm, int64_t value) {
  const std::vector<int64_t> all = gather_numbers(comm, value);
  return std::accumulate(all.begin(), all.end(), int64_t{0});
}

/// Solves the maps of all junctions that do not share one, group by group, from the passes to the
/// journal.
class OwnMaps {
 public:
  OwnMaps(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
          const CalibrationObserver& observer, PhaseClock& clock)
      : comm_(comm),
        job_(job),
        passes_(passes),
        observer_(observer),
        clock_(clock),
        recorder_(job.journal, job.fold_dtype, job.device, !job.shard(comm).overlaps),
        mine_(junctions_of(job, job.shard(comm))) {}

  /// Takes the passes of each group and solves its maps.
  void solve_all();

 private:
  std::vector<int64_t> unsolved() const;
  void count_finished(const std::vector<int64_t>& pending);
  /// Takes the sums of the first pass, and decomposes them if a second pass follows. Kept
  /// statistics replace the pass; likewise in second_pass().
  void first_pass(JunctionGroup& group);
  void decompose(StageJunction& junction) const;
  void second_pass(JunctionGroup& group);
  void solve(JunctionGroup& group);

  Communicator& comm_;
  const CalibrationJob& job_;
  PipelinePasses& passes_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  JunctionRecorder recorder_;
  std::vector<int64_t> mine_;
};

std::vector<int64_t> OwnMaps::unsolved() const {
  std::vector<int64_t> pending;
  for (const int64_t junction : mine_) {
    const Journal& journal = job_.journal;
    if (!journal.has_map(junction) || !journal.has_diagnostics(junction)) {
      pending.push_back(junction);
    }
  }
  return pending;
}

void OwnMaps::first_pass(JunctionGroup& group) {
  if (job_.statistics != nullptr) {
    for (StageJunction& junction : group.junctions) {
      junction.decomposed.emplace(kept_decomposition(job_, junction.setup));
    }
    return;
  }
  passes_.first(group);
  if (!needs_second_pass(job_.map)) return;  // solve() decomposes each
  for (StageJunction& junction : group.junctions) decompose(junction);
}

void OwnMaps::decompose(StageJunction& junction) const {
  junction.decomposed.emplace(std::move(*junction.first).finish(job_.windows.numel()));
  junction.first.reset();
}

void OwnMaps::second_pass(JunctionGroup& group) {
  if (!needs_second_pass(job_.map)) return;
  if (job_.statistics != nullptr) {
    for (StageJunction& junction : group.junctions) {
      junction.second.emplace(kept_second_pass(job_, junction.setup));
    }
    return;
  }
  for (StageJunction& junction : group.junctions) {
    junction.rotation = junction.decomposed->rotation();
  }
  passes_.second(group);
}

/// All ranks solve side by side. They synchronize after each junction, so that progress counts the
/// junctions of all ranks.
void OwnMaps::solve(JunctionGroup& group) {
  for (int64_t round = 0; round < group.largest; ++round) {
    const bool more = round < static_cast<int64_t>(group.junctions.size());
    if (more) {
      StageJunction& junction = group.junctions[static_cast<size_t>(round)];
      const int64_t index = junction.setup.junction;
      if (!junction.decomposed) decompose(junction);
      SolvedJunction solved =
          std::move(*junction.decomposed)
              .solve(job_.widths.all.at(static_cast<size_t>(index)), std::move(junction.second));
      junction.decomposed.reset();
      junction.second.reset();
      recorder_.record(index, std::move(solved));
    }
    observer_.junctions_solved(sum_over_ranks(comm_, more ? 1 : 0));
  }
  recorder_.finish();
}

/// Reports the junctions that an interrupted run had finished.
void OwnMaps::count_finished(const std::vector<int64_t>& pending) {
  const auto left = sum_over_ranks(comm_, static_cast<int64_t>(pending.size()));
  if (left < job_.mapped_junctions()) observer_.junctions_found(job_.mapped_junctions() - left);
}

void OwnMaps::solve_all() {
  const std::vector<int64_t> pending = unsolved();
  count_finished(pending);
  in_groups(comm_, job_, pending, clock_, [&](JunctionGroup& group) {
    first_pass(group);
    second_pass(group);
    passes_.unload();  // the solver needs the memory
    solve(group);
  });
}

}  // namespace

void calibrate_pipeline(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                        const CalibrationObserver& observer, PhaseClock& clock) {
  PipelinePasses passes(comm, job, observer, clock);
  sink.begin(job.widths);
  if (!job.sharing.empty()) {
    solve_shared_maps(comm, job, passes, observer, clock);
  } else {
    OwnMaps(comm, job, passes, observer, clock).solve_all();
  }
  passes.unload();  // needed if maps are shared
  comm.barrier();   // every map is in the journal
  fold_stage(comm, job, sink, clock);
}

}  // namespace dotresize
