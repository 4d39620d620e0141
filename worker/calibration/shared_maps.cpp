#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <utility>

#include "worker/calibration/junction_groups.h"
#include "worker/calibration/storage/statistics.h"
#include "worker/maps/map_algorithm.h"

namespace dotresize {
namespace {

/// Sums of a job's maps in the journal, or in the statistics that it uses.
struct SharedMaps {
  Communicator& comm;
  const CalibrationJob& job;
  PhaseClock& clock;
  std::vector<int64_t> mine = junctions_of(job, job.shard(comm));  ///< this rank's junctions
  int64_t tokens = job.windows.numel();

  FirstPass first(int64_t junction) const {
    return {setup_of(job, junction, clock), kept_sums(job, entries::kFirst(junction), {"gram"})};
  }
  /// Reads the eigenbasis of the map, for the second pass and the solution.
  DecomposedJunction rotation(int64_t map) const {
    return {setup_of(job, map, clock), tokens,
            kept_sums(job, entries::kRotation(map), {"values", "vectors"})};
  }

  /// Returns the end of the junctions that share the map.
  int64_t end_of(int64_t map) const {
    int64_t end = map + 1;
    while (end < job.widths.mapped_count && job.map_of(end) == map) ++end;
    return end;
  }
  /// Returns true if the journal has the map and its shared diagnostics.
  bool is_solved(int64_t map) const {
    return job.journal.has(entries::kMap(map)) && job.journal.has(entries::kShared(map));
  }
  /// Returns true if the journal also has the diagnostics of all junctions of the map.
  bool is_finished(int64_t map) const {
    for (int64_t junction = map; junction < end_of(map); ++junction) {
      if (!job.journal.has(entries::kJunction(junction))) return false;
    }
    return is_solved(map);
  }
  /// Returns this rank's junctions whose sums are still needed and not in the journal.
  std::vector<int64_t> lacking(const EntryKind& sums) const {
    std::vector<int64_t> pending;
    for (const int64_t junction : mine) {
      const bool finished = is_finished(job.map_of(junction));
      if (!finished && !job.journal.has(sums(junction))) pending.push_back(junction);
    }
    return pending;
  }
  DecomposedJunction decompose(int64_t map) const {
    const int64_t end = end_of(map);
    if (end == map + 1) return first(map).finish(tokens);
    FirstPass sum(setup_of(job, map, clock), CostPrecision{});
    for (int64_t junction = map; junction < end; ++junction) {
      sum.add_scaled(first(junction), tokens);
    }
    return std::move(sum).finish(tokens);
  }
  /// Returns the finished second pass of the map.
  CostSums sum_of_costs(int64_t map) const {
    const auto second = [&](int64_t junction) -> CostSums {
      return {setup_of(job, junction, clock),
              kept_sums(job, entries::kSecond(junction), {"precision", "abs_sum", "cost"})};
    };
    const int64_t end = end_of(map);
    if (end == map + 1) return second(map);
    CostSums sum(setup_of(job, map, clock), CostPrecision{});
    for (int64_t junction = map; junction < end; ++junction) {
      sum.add_scaled(second(junction), 1.0 / std::sqrt(first(junction).mean_square(tokens)));
    }
    return sum;
  }
};

}  // namespace

void take_shared_sums(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                      PhaseClock& clock) {
  const SharedMaps maps{comm, job, clock};
  passes.in_groups(maps.lacking(entries::kFirst), [&](JunctionGroup& group) {
    passes.first(group);
    for (StageJunction& junction : group.junctions) {
      job.journal.put(entries::kFirst(junction.setup.junction), junction.first->tensors());
    }
  });
  comm.barrier();  // all first sums are in the journal
  if (!needs_second_pass(job.map)) return;
  // The rank that has the first junction of a map finds the basis of the second pass.
  for (const int64_t map : maps.mine) {
    if (job.map_of(map) != map || maps.is_finished(map)) continue;
    if (job.journal.has(entries::kRotation(map))) continue;
    job.journal.put(entries::kRotation(map), maps.decompose(map).tensors());
  }
  comm.barrier();
  passes.in_groups(maps.lacking(entries::kSecond), [&](JunctionGroup& group) {
    for (StageJunction& junction : group.junctions) {
      junction.rotation = maps.rotation(job.map_of(junction.setup.junction)).rotation();
    }
    passes.second(group);
    for (StageJunction& junction : group.junctions) {
      job.journal.put(entries::kSecond(junction.setup.junction), junction.second->tensors());
    }
  });
  comm.barrier();
}

void solve_shared_maps(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                       const CalibrationObserver& observer, PhaseClock& clock) {
  if (job.statistics == nullptr) take_shared_sums(comm, job, passes, clock);
  passes.unload();
  const SharedMaps maps{comm, job, clock};
  const bool two_passes = needs_second_pass(job.map);
  for (const int64_t map : maps.mine) {
    if (job.map_of(map) != map || maps.is_solved(map)) continue;
    std::optional<CostSums> costs;
    if (two_passes) costs.emplace(maps.sum_of_costs(map));
    DecomposedJunction decomposed = two_passes ? maps.rotation(map) : maps.decompose(map);
    SolvedJunction solved =
        std::move(decomposed).solve(job.widths.all.at(static_cast<size_t>(map)), std::move(costs));
    JunctionSolution& solution = solved.solution;
    solved.describe(solution.diagnostics);
    job.journal.put_diagnostics(entries::kShared(map), solution.diagnostics);
    job.journal.put_map(map, solution.map.to(job.fold_dtype), solution.support);
  }
  comm.barrier();  // every map is in the journal
  for (const int64_t junction : maps.mine) {
    if (job.journal.has(entries::kJunction(junction))) continue;
    const int64_t map = job.map_of(junction);
    FirstPass sums = maps.first(junction);
    CostPrecision precision;
    if (two_passes) {
      precision = CostPrecision::from(kept_sums(job, entries::kSecond(junction), {"precision"}));
    } else if (sums.costs) {
      precision = sums.costs->precision;
    }
    const at::Tensor M = job.journal.map(map).M.to(at::kDouble).to(job.device);
    MapDiagnostics shared = job.journal.diagnostics(entries::kShared(map));
    if (junction != map) shared.transport.reset();
    job.journal.put_diagnostics(entries::kJunction(junction),
                                std::move(sums).describe(std::move(shared), M, precision));
  }
  comm.barrier();
  observer.junctions_solved(job.widths.mapped_count);
}

}  // namespace dotresize
