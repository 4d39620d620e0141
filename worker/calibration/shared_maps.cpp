#include "worker/calibration/shared_maps.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "worker/calibration/storage/statistics.h"
#include "worker/maps/map_algorithm.h"

namespace dotresize {
namespace {

class SharedMaps {
 public:
  SharedMaps(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
             PhaseClock& clock)
      : comm_(comm),
        job_(job),
        passes_(passes),
        clock_(clock),
        mine_(junctions_of(job, job.shard(comm))) {}

  void take_first_sums();
  /// Writes the eigenbases of the owned maps, for the second pass.
  void write_rotations();
  void take_second_sums();
  void solve();
  /// Writes the diagnostics of this rank's junctions.
  void describe();

 private:
  JunctionSetup setup(int64_t junction) const {
    return {junction, job_.config.hidden_size, job_.map, clock_, job_.device};
  }
  int64_t tokens() const { return job_.windows.numel(); }
  FirstPass first(int64_t junction) const {
    return {setup(junction), kept_sums(job_, first_entry(junction), {"gram"})};
  }
  CostSums second(int64_t junction) const {
    return {setup(junction),
            kept_sums(job_, second_entry(junction), {"precision", "abs_sum", "cost"})};
  }
  std::vector<int64_t> lacking(std::string (*entry)(int64_t)) const;
  /// Reads the eigenbasis of the map, for the second pass and the solution.
  DecomposedJunction rotation(int64_t map) const {
    return {setup(map), tokens(), kept_sums(job_, rotation_entry(map), {"values", "vectors"})};
  }
  int64_t width_of(int64_t map) const { return job_.widths.all.at(static_cast<size_t>(map)); }
  /// Maps that this rank owns.
  std::vector<int64_t> owned() const;
  /// is_solved(): the journal has the map and its shared diagnostics. is_finished(): it also has
  /// the diagnostics of all junctions of the map.
  bool is_solved(int64_t map) const;
  bool is_finished(int64_t map) const;
  int64_t end_of(int64_t map) const;
  DecomposedJunction decompose(int64_t map) const;
  CostSums sum_of_costs(int64_t map) const;

  Communicator& comm_;
  const CalibrationJob& job_;
  PipelinePasses& passes_;
  PhaseClock& clock_;
  std::vector<int64_t> mine_;
};

std::vector<int64_t> SharedMaps::lacking(std::string (*entry)(int64_t)) const {
  std::vector<int64_t> pending;
  for (const int64_t junction : mine_) {
    const bool finished = is_finished(job_.map_of(junction));
    if (!finished && !job_.journal.has(entry(junction))) pending.push_back(junction);
  }
  return pending;
}

std::vector<int64_t> SharedMaps::owned() const {
  std::vector<int64_t> maps;
  for (const int64_t junction : mine_) {
    if (job_.map_of(junction) == junction) maps.push_back(junction);
  }
  return maps;
}

bool SharedMaps::is_solved(int64_t map) const {
  return job_.journal.has_map(map) && job_.journal.has_shared_diagnostics(map);
}

bool SharedMaps::is_finished(int64_t map) const {
  bool described = true;
  for (int64_t junction = map; junction < end_of(map); ++junction) {
    described = described && job_.journal.has_diagnostics(junction);
  }
  return described && is_solved(map);
}

int64_t SharedMaps::end_of(int64_t map) const {
  int64_t end = map + 1;
  while (end < job_.mapped_junctions() && job_.map_of(end) == map) ++end;
  return end;
}

void SharedMaps::take_first_sums() {
  in_groups(comm_, job_, lacking(first_entry), clock_, [&](JunctionGroup& group) {
    passes_.first(group);
    for (StageJunction& junction : group.junctions) {
      job_.journal.put(first_entry(junction.setup.junction), junction.first->tensors());
    }
  });
  comm_.barrier();
}

DecomposedJunction SharedMaps::decompose(int64_t map) const {
  if (end_of(map) == map + 1) return first(map).finish(tokens());
  FirstPass sum(setup(map), CostPrecision{});
  for (int64_t junction = map; junction < end_of(map); ++junction) {
    sum.add_scaled(first(junction), tokens());
  }
  return std::move(sum).finish(tokens());
}

void SharedMaps::write_rotations() {
  for (const int64_t map : owned()) {
    if (is_finished(map) || job_.journal.has(rotation_entry(map))) continue;
    job_.journal.put(rotation_entry(map), decompose(map).tensors());
  }
  comm_.barrier();
}

void SharedMaps::take_second_sums() {
  in_groups(comm_, job_, lacking(second_entry), clock_, [&](JunctionGroup& group) {
    for (StageJunction& junction : group.junctions) {
      junction.rotation = rotation(job_.map_of(junction.setup.junction)).rotation();
    }
    passes_.second(group);
    for (StageJunction& junction : group.junctions) {
      job_.journal.put(second_entry(junction.setup.junction), junction.second->costs().tensors());
    }
  });
  comm_.barrier();
}

CostSums SharedMaps::sum_of_costs(int64_t map) const {
  if (end_of(map) == map + 1) return second(map);
  CostSums sum(setup(map), CostPrecision{});
  for (int64_t junction = map; junction < end_of(map); ++junction) {
    sum.add_scaled(second(junction), 1.0 / std::sqrt(first(junction).mean_square(tokens())));
  }
  return sum;
}

void SharedMaps::solve() {
  for (const int64_t map : owned()) {
    if (is_solved(map)) continue;
    std::optional<SecondPass> sum;
    if (needs_second_pass(job_.map)) sum.emplace(setup(map), sum_of_costs(map));
    DecomposedJunction decomposed = sum ? rotation(map) : decompose(map);
    SolvedJunction solved = std::move(decomposed).solve(width_of(map), std::move(sum));
    JunctionSolution& solution = solved.solution;
    solved.describe(solution.diagnostics);
    job_.journal.put_shared_diagnostics(map, solution.diagnostics);
    job_.journal.put_map(map, solution.map.to(job_.fold_dtype), solution.support);
  }
  comm_.barrier();
}

void SharedMaps::describe() {
  for (const int64_t junction : mine_) {
    if (job_.journal.has_diagnostics(junction)) continue;
    const int64_t map = job_.map_of(junction);
    FirstPass sums = first(junction);
    const CostPrecision precision =
        needs_second_pass(job_.map)
            ? CostPrecision::from(kept_sums(job_, second_entry(junction), {"precision"}))
            : sums.precision();
    const at::Tensor M = job_.journal.map(map).M.to(at::kDouble).to(job_.device);
    MapDiagnostics shared = job_.journal.shared_diagnostics(map);
    if (junction != map) shared.transport.reset();
    job_.journal.put_diagnostics(junction,
                                 std::move(sums).describe(std::move(shared), M, precision));
  }
}

}  // namespace

void take_shared_sums(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                      PhaseClock& clock) {
  SharedMaps maps(comm, job, passes, clock);
  maps.take_first_sums();
  if (!needs_second_pass(job.map)) return;
  maps.write_rotations();
  maps.take_second_sums();
}

void solve_shared_maps(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                       const CalibrationObserver& observer, PhaseClock& clock) {
  if (job.statistics == nullptr) take_shared_sums(comm, job, passes, clock);
  passes.unload();
  SharedMaps maps(comm, job, passes, clock);
  maps.solve();
  maps.describe();
  comm.barrier();
  observer.junctions_solved(job.mapped_junctions());
}

}  // namespace dotresize
