#include "worker/calibration/shared_map.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "worker/calibration/storage/kept_sums.h"

namespace dotresize {
namespace {

/// Sums of the junctions in the journal, or in the statistics that the job uses.
struct SharedSums {
  const CalibrationJob& job;
  PhaseClock& clock;
  int64_t tokens = job.windows.numel();

  FirstPass first(int64_t junction) const {
    return {setup_of(job, junction, clock),
            kept_sums(job, entries::kFirst(junction), FirstPass::names(job.map.sums()))};
  }
  DecomposedJunction decompose() const {
    FirstPass sum(setup_of(job, kSharedMap, clock));
    for (int64_t junction = 0; junction < job.widths.mapped_count; ++junction) {
      sum.add_scaled(first(junction), tokens);
    }
    return std::move(sum).finish(tokens);
  }
  /// Reads the eigenbasis of the map, for the second pass and the solution.
  DecomposedJunction basis() const {
    return {setup_of(job, kSharedMap, clock), tokens,
            kept_sums(job, entries::kRotation(kSharedMap), {"values", "vectors"})};
  }
  /// Returns true if the journal has the map and its shared diagnostics.
  bool is_solved() const {
    return job.journal.has(entries::kMap(kSharedMap)) &&
           job.journal.has(entries::kShared(kSharedMap));
  }
};

}  // namespace

void take_shared_sums(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                      PhaseClock& clock) {
  const SharedSums sums{job, clock};
  const std::vector<int64_t> mine = junctions_of(job, job.shard(comm));
  bool finished = sums.is_solved();  // with the diagnostics of all junctions
  for (int64_t junction = 0; junction < job.widths.mapped_count; ++junction) {
    finished = finished && job.journal.has(entries::kJunction(junction));
  }
  // This rank's junctions whose sums are still needed.
  const auto lacking = [&](const EntryKind& kind) {
    std::vector<int64_t> pending;
    for (const int64_t junction : mine) {
      if (!finished && !job.journal.has(kind(junction))) pending.push_back(junction);
    }
    return pending;
  };
  passes.in_groups(lacking(entries::kFirst), [&](JunctionGroup& group) {
    passes.first(group);
    for (StageJunction& junction : group.junctions) {
      job.journal.put(entries::kFirst(junction.setup.junction), junction.first->tensors());
    }
  });
  comm.barrier();  // all first sums are in the journal
  if (!job.map.sums().second.any()) return;
  const std::string rotation = entries::kRotation(kSharedMap);
  const bool has_first = !mine.empty() && mine.front() == 0;
  if (has_first && !finished && !job.journal.has(rotation)) {
    job.journal.put(rotation, sums.decompose().tensors());
  }
  comm.barrier();
  const std::vector<int64_t> pending = lacking(entries::kSecond);
  const at::Tensor shared = pending.empty() ? at::Tensor() : sums.basis().rotation();
  passes.in_groups(pending, [&](JunctionGroup& group) {
    for (StageJunction& junction : group.junctions) junction.rotation = shared;
    passes.second(group);
    for (StageJunction& junction : group.junctions) {
      job.journal.put(entries::kSecond(junction.setup.junction), junction.second->tensors());
    }
  });
  comm.barrier();
}

void solve_shared_map(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                      const CalibrationObserver& observer, PhaseClock& clock) {
  if (job.statistics == nullptr) take_shared_sums(comm, job, passes, clock);
  passes.unload();
  const SharedSums sums{job, clock};
  const std::vector<int64_t> mine = junctions_of(job, job.shard(comm));
  const MapSums second_pass = job.map.sums().second;
  if (!mine.empty() && mine.front() == 0 && !sums.is_solved()) {
    std::optional<CostSums> costs;
    if (second_pass.any()) {
      costs.emplace(setup_of(job, kSharedMap, clock));
      for (int64_t junction = 0; junction < job.widths.mapped_count; ++junction) {
        const CostSums own(
            setup_of(job, junction, clock),
            kept_sums(job, entries::kSecond(junction), CostSums::names(second_pass)));
        costs->add_scaled(own, 1.0 / std::sqrt(sums.first(junction).mean_square(sums.tokens)));
      }
    }
    DecomposedJunction decomposed = costs ? sums.basis() : sums.decompose();
    SolvedJunction solved = std::move(decomposed).solve(job.widths.largest(), std::move(costs));
    JunctionSolution& solution = solved.solution;
    solved.describe(solution.diagnostics);
    job.journal.put_diagnostics(entries::kShared(kSharedMap), solution.diagnostics);
    job.journal.put_map(kSharedMap, solution.map.to(job.fold_dtype), solution.support);
  }
  comm.barrier();  // the map is in the journal
  std::vector<int64_t> pending;
  std::ranges::copy_if(mine, std::back_inserter(pending), [&](int64_t junction) {
    return !job.journal.has(entries::kJunction(junction));
  });
  at::Tensor M;
  MapDiagnostics shared;
  if (!pending.empty()) {
    M = job.journal.map(kSharedMap).M.to(at::kDouble).to(job.device);
    shared = job.journal.diagnostics(entries::kShared(kSharedMap));
  }
  for (const int64_t junction : pending) {
    FirstPass own = sums.first(junction);
    MapDiagnostics diagnostics = shared;
    if (junction > 0) diagnostics.transport.reset();  // one picture for all
    job.journal.put_diagnostics(entries::kJunction(junction),
                                std::move(own).describe(std::move(diagnostics), M));
  }
  comm.barrier();
  observer.junctions_solved(job.widths.mapped_count);
}

}  // namespace dotresize
