#include "worker/calibration/own_maps.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "worker/calibration/storage/kept_sums.h"
#include "worker/calibration/storage/statistics.h"

namespace dotresize {
namespace {

/// Reads what the passes of a group have left from the statistics that the job uses.
void read_passes(const CalibrationJob& job, JunctionGroup& group) {
  const int64_t tokens = job.windows.numel();
  for (StageJunction& junction : group.junctions) {
    const JunctionSetup& setup = junction.setup;
    const PhaseClock::Scope scope(setup.clock, "read");
    const std::string basis = entries::kBasis(setup.junction);
    if (job.statistics->has(basis)) {
      junction.decomposed.emplace(setup, tokens, kept_sums(job, basis, {"values", "vectors"}));
    } else {
      FirstPass first(
          setup, kept_sums(job, entries::kFirst(setup.junction), FirstPass::names(job.map.sums())));
      junction.decomposed.emplace(std::move(first).finish(tokens));
    }
  }
  const MapSums sums = job.map.sums().second;
  if (!sums.any()) return;
  for (StageJunction& junction : group.junctions) {
    const JunctionSetup& setup = junction.setup;
    const PhaseClock::Scope scope(setup.clock, "read");
    junction.second.emplace(
        setup, kept_sums(job, entries::kSecond(setup.junction), CostSums::names(sums)));
  }
}

}  // namespace

void solve_own_maps(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                    const CalibrationObserver& observer) {
  std::vector<int64_t> pending;
  for (const int64_t junction : junctions_of(job, job.shard(comm))) {
    const bool solved =
        job.journal.has(entries::kMap(junction)) && job.journal.has(entries::kJunction(junction));
    if (!solved) pending.push_back(junction);
  }
  const std::vector<int64_t> of_ranks = gather_numbers(comm, std::ssize(pending));
  const int64_t left = std::accumulate(of_ranks.begin(), of_ranks.end(), int64_t{0});
  // An interrupted run has solved the others.
  if (left < job.widths.mapped_count) observer.junctions_found(job.widths.mapped_count - left);
  const bool two_passes = job.map.sums().second.any();
  // Without a second pass each junction is decomposed when it is its turn.
  const auto decompose = [&](StageJunction& junction) {
    junction.decomposed.emplace(std::move(*junction.first).finish(job.windows.numel()));
    junction.first.reset();
  };
  JunctionRecorder recorder(job.journal, job.fold_dtype, job.device, !job.shard(comm).overlaps);
  passes.in_groups(pending, [&](JunctionGroup& group) {
    if (job.statistics) {
      read_passes(job, group);
    } else {
      passes.first(group);
      if (two_passes) {
        for (StageJunction& junction : group.junctions) decompose(junction);
        for (StageJunction& junction : group.junctions) {
          junction.rotation = junction.decomposed->rotation();
        }
        passes.second(group);
      }
    }
    passes.unload();  // the solver needs the memory
    for (int64_t round = 0; round < group.largest; ++round) {
      const bool more = round < static_cast<int64_t>(group.junctions.size());
      if (more) {
        StageJunction& junction = group.junctions[static_cast<size_t>(round)];
        const int64_t index = junction.setup.junction;
        if (!junction.decomposed) decompose(junction);
        SolvedJunction solved =
            std::move(*junction.decomposed)
                .solve(job.widths.all.at(static_cast<size_t>(index)), std::move(junction.second));
        junction.decomposed.reset();
        junction.second.reset();
        recorder.record(index, std::move(solved));
      }
      // Ranks synchronize here, so that progress counts the junctions of all of them.
      observer.junctions_solved(std::ranges::count(gather_numbers(comm, more ? 1 : 0), 1));
    }
    recorder.finish();
  });
}

}  // namespace dotresize
