#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_estimator.h"
#include "worker/calibration/shared_map.h"
#include "worker/calibration/sublayer_loader.h"
#include "worker/maps/fold.h"
#include "worker/transformer/stage.h"

namespace dotresize {
namespace {

/// The junctions of one rank, in order: [first, first + estimators.size()).
struct StageJunctions {
  int64_t first = 0;
  std::vector<JunctionEstimator> estimators;

  JunctionEstimator* find(int64_t junction) {
    const int64_t index = junction - first;
    const bool ours = index >= 0 && index < static_cast<int64_t>(estimators.size());
    return ours ? &estimators[static_cast<size_t>(index)] : nullptr;
  }
};

const RankShard& shard_of(const Communicator& comm, const ShardPlan& plan) {
  return plan.ranks.at(static_cast<size_t>(comm.rank()));
}

StageJunctions make_junctions(const CalibrationJob& job, const RankShard& shard,
                              PhaseClock& clock) {
  StageJunctions junctions;
  junctions.first = shard.first_sublayer == 0 ? 0 : shard.first_sublayer + 1;
  const int64_t end = std::min(shard.end_sublayer + 1, job.mapped_junctions());
  for (int64_t junction = junctions.first; junction < end; ++junction) {
    junctions.estimators.emplace_back(junction, job.config.hidden_size, job.map, clock, job.device);
    if (job.tries_half_costs()) junctions.estimators.back().try_half_costs();
  }
  return junctions;
}

/// Of the groups of two or more junctions, those that this rank has a part of, in order.
std::vector<SharedMap> make_shared_maps(Communicator& comm, const CalibrationJob& job,
                                        StageJunctions& junctions, PhaseClock& clock) {
  std::vector<SharedMap> shared;
  const int64_t mapped = job.mapped_junctions();
  for (int64_t first = 0, end = 1; first < mapped; first = end, end = first + 1) {
    while (end < mapped && job.shares_map(end - 1)) ++end;
    std::vector<JunctionEstimator*> mine;
    for (int64_t junction = first; junction < end; ++junction) {
      if (JunctionEstimator* estimator = junctions.find(junction)) mine.push_back(estimator);
    }
    if (end - first == 1 || mine.empty()) continue;
    shared.emplace_back(comm, job.plan, first, end, job.config.hidden_size, job.map,
                        std::move(mine), clock, job.device);
  }
  return shared;
}

/// The shared map of the junction; null where it has its own.
const SharedMap* find(const std::vector<SharedMap>& shared, int64_t junction) {
  const auto found = std::find_if(shared.begin(), shared.end(),
                                  [&](const SharedMap& map) { return map.contains(junction); });
  return found == shared.end() ? nullptr : &*found;
}

void decompose_all(const CalibrationJob& job, StageJunctions& junctions,
                   std::vector<SharedMap>& shared) {
  const int64_t tokens = job.windows.numel();
  for (SharedMap& map : shared) map.decompose(tokens);
  int64_t junction = junctions.first;
  for (JunctionEstimator& estimator : junctions.estimators) {
    if (find(shared, junction++) == nullptr) estimator.decompose(tokens);
  }
}

/// Both passes: the calibration tokens through the dense model, every junction's moments on the
/// way. `know_spectra` is called between them, when the junctions have their eigenvalues.
void take_moments(Communicator& comm, const CalibrationJob& job, StageJunctions& junctions,
                  std::vector<SharedMap>& shared, const std::function<void()>& know_spectra,
                  const CalibrationObserver& observer, PhaseClock& clock) {
  const RankShard& shard = shard_of(comm, job.plan);
  const Stage stage = [&] {
    const PhaseClock::Scope scope(clock, "read");
    const int64_t end = std::min(shard.end_sublayer, job.mapped_junctions() - 1);
    return load_stage(job.reader, job.config, shard, end, job.compute_dtype, job.device);
  }();
  const auto stream = [&](auto add) {
    const PhaseClock::Scope scope(clock, "forward");
    stream_through_stages(
        comm, job.config, stage, job.windows,
        [&](int64_t junction, const at::Tensor& x, const at::Tensor&) {
          if (JunctionEstimator* estimator = junctions.find(junction)) add(*estimator, x);
        },
        observer.tokens_seen);
  };

  stream([](JunctionEstimator& estimator, const at::Tensor& x) { estimator.add(x); });
  decompose_all(job, junctions, shared);
  know_spectra();
  if (job.map.pca && job.map.transport) {
    stream([](JunctionEstimator& estimator, const at::Tensor& x) { estimator.add_rotated(x); });
  }
}

/// The spectra of all ranks' junctions, on every rank.
at::Tensor gather_spectra(Communicator& comm, const CalibrationJob& job,
                          const StageJunctions& junctions) {
  at::Tensor spectra = at::zeros({job.mapped_junctions(), job.config.hidden_size}, at::kDouble);
  int64_t junction = junctions.first;
  for (const JunctionEstimator& estimator : junctions.estimators) {
    spectra[junction++].copy_(estimator.spectrum());
  }
  comm.all_reduce_sum(spectra);  // exact: all summands but one are zero
  return spectra;
}

/// The widths that the job chooses; this rank's junctions get theirs.
JunctionWidths choose_widths(Communicator& comm, const CalibrationJob& job,
                             StageJunctions& junctions) {
  const JunctionWidths widths = job.choose_widths(gather_spectra(comm, job, junctions));
  auto junction = static_cast<size_t>(junctions.first);
  for (JunctionEstimator& estimator : junctions.estimators) {
    estimator.set_width(widths.all.at(junction++));
  }
  return widths;
}

int64_t sum_over_ranks(Communicator& comm, int64_t value) {
  at::Tensor sum = at::full({1}, value, at::kLong);
  comm.all_reduce_sum(sum);
  return sum.item<int64_t>();
}

/// All ranks solve side by side. They meet after each junction, so that progress counts those of
/// all ranks.
std::vector<JunctionSolution> solve_all(Communicator& comm, const CalibrationJob& job,
                                        StageJunctions& junctions, std::vector<SharedMap>& shared,
                                        const CalibrationObserver& observer) {
  const int64_t tokens = job.windows.numel();
  for (SharedMap& map : shared) map.solve(tokens);
  std::vector<JunctionSolution> solutions;
  for (int64_t solved = 0; solved < job.mapped_junctions();) {
    const bool more = solutions.size() < junctions.estimators.size();
    if (more) {
      const auto junction = junctions.first + static_cast<int64_t>(solutions.size());
      JunctionEstimator& estimator = *junctions.find(junction);
      const SharedMap* map = find(shared, junction);
      solutions.push_back(map ? map->solution_for(estimator) : estimator.solve(tokens));
      observer.solved(junction, solutions.back());
    }
    const int64_t now = sum_over_ranks(comm, more ? 1 : 0);
    solved += now;
    observer.junctions_solved(now);
  }
  return solutions;
}

/// M_inv [width, d] of the junction that the rank's first sublayer reads: the last one of the stage
/// before.
at::Tensor exchange_unmaps(Communicator& comm, const CalibrationJob& job, int64_t width,
                           const std::vector<JunctionSolution>& solutions) {
  std::unique_ptr<Transfer> sending;
  if (comm.rank() + 1 < comm.size()) {
    sending = comm.send(solutions.back().map.M_inv.contiguous(), comm.rank() + 1);
  }
  at::Tensor unmap =
      at::empty({width, job.config.hidden_size}, at::dtype(at::kDouble).device(job.device));
  if (comm.rank() > 0) comm.receive(unmap, comm.rank() - 1)->wait();
  if (sending) sending->wait();
  return unmap;
}

void fold_stage(const CalibrationJob& job, const RankShard& shard, at::Tensor unmap,
                const std::vector<JunctionSolution>& solutions, FoldedModelSink& sink,
                PhaseClock& clock) {
  const at::ScalarType dtype = job.fold_dtype;
  const auto read = [&](const auto& load) {
    const PhaseClock::Scope scope(clock, "read");
    return load();
  };
  auto solution = solutions.begin();
  if (shard.first_sublayer == 0) {
    unmap = solution->map.M_inv;
    const at::Tensor embedding =
        read([&] { return load_embedding(job.reader, job.config, at::kFloat); });
    sink.put_embedding(fold_embedding(embedding, solution->map.M.to(dtype)));
    ++solution;
  }
  SublayerLoader loader(job, clock);
  for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
    const SublayerWeights dense = loader.take(sublayer);
    if (sublayer + 1 < shard.end_sublayer) loader.read_ahead(sublayer + 1);
    SublayerWeights folded = fold_input(dense, unmap.to(dtype));
    unmap = at::Tensor();
    if (solution != solutions.end()) {
      folded = fold_output(folded, solution->map.M.to(dtype));
      unmap = solution->map.M_inv;
      ++solution;
    }
    if (job.shares_map(sublayer)) folded.shortcut = at::Tensor();  // M_inv·M, the identity
    sink.put_sublayer(folded);
  }
  if (shard.end_sublayer == job.config.num_sublayers()) {
    const HeadWeights head = read([&] { return load_head(job.reader, job.config, dtype); });
    sink.put_head(fold_head(head, unmap.defined() ? unmap.to(dtype) : unmap));
  }
}

}  // namespace

void calibrate_pipeline(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                        const CalibrationObserver& observer, PhaseClock& clock) {
  const RankShard& shard = shard_of(comm, job.plan);
  StageJunctions junctions = make_junctions(job, shard, clock);
  std::vector<SharedMap> shared = make_shared_maps(comm, job, junctions, clock);
  int64_t unmap_width = job.map.width;
  const auto know_spectra = [&] {
    if (!job.choose_widths) return;
    const JunctionWidths widths = choose_widths(comm, job, junctions);
    unmap_width = widths.all.at(static_cast<size_t>(shard.first_sublayer));
    sink.begin(widths);
  };
  if (!job.choose_widths) sink.begin(job.widths);
  take_moments(comm, job, junctions, shared, know_spectra, observer, clock);
  const std::vector<JunctionSolution> solutions = solve_all(comm, job, junctions, shared, observer);
  const at::Tensor unmap = exchange_unmaps(comm, job, unmap_width, solutions);
  const PhaseClock::Scope scope(clock, "fold");
  fold_stage(job, shard, unmap, solutions, sink, clock);
}

}  // namespace dotresize
