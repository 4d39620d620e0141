#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "worker/calibration/calibration.h"
#include "worker/calibration/stage_junctions.h"
#include "worker/calibration/sublayer_loader.h"
#include "worker/maps/fold.h"
#include "worker/maps/map_algorithm.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/load.h"
#include "worker/transformer/stage.h"

namespace dotresize {
namespace {

using SharedMaps = std::vector<std::unique_ptr<SharedMap>>;

const RankShard& shard_of(const Communicator& comm, const CalibrationJob& job) {
  return job.plan.ranks.at(static_cast<size_t>(comm.rank()));
}

Stage load_dense_stage(Communicator& comm, const CalibrationJob& job, PhaseClock& clock) {
  const PhaseClock::Scope scope(clock, "read");
  const RankShard& shard = shard_of(comm, job);
  const int64_t end = std::min(shard.end_sublayer, job.mapped_junctions() - 1);
  return load_stage(job.reader, job.config, shard, end, job.compute_dtype, job.device);
}

void decompose_all(const CalibrationJob& job, StageJunctions& stage, const SharedMaps& shared) {
  const int64_t tokens = job.windows.numel();
  for (const auto& map : shared) map->decompose(tokens);
  for (StageJunction& junction : stage.junctions) {
    if (junction.shared != nullptr) continue;
    junction.decomposed.emplace(std::move(*junction.first).finish(tokens));
    junction.first.reset();
    junction.rotation = junction.decomposed->rotation();
  }
}

/// The spectra of all ranks' junctions, on every rank.
at::Tensor gather_spectra(Communicator& comm, const CalibrationJob& job,
                          const StageJunctions& stage) {
  at::Tensor spectra = at::zeros({job.mapped_junctions(), job.config.hidden_size}, at::kDouble);
  int64_t junction = stage.first;
  for (const StageJunction& mine : stage.junctions) {
    spectra[junction++].copy_(mine.decomposed->spectrum());
  }
  comm.all_reduce_sum(spectra);  // exact: all summands but one are zero
  return spectra;
}

/// Both passes: the calibration tokens through the dense model, every junction's moments on the
/// way. Returns the widths of all junctions, which are known between the passes.
JunctionWidths take_moments(Communicator& comm, const CalibrationJob& job, StageJunctions& stage,
                            const SharedMaps& shared, FoldedModelSink& sink,
                            const CalibrationObserver& observer, PhaseClock& clock) {
  const Stage dense = load_dense_stage(comm, job, clock);
  const auto stream = [&](auto add) {
    const PhaseClock::Scope scope(clock, "forward");
    stream_through_stages(
        comm, job.config, dense, job.windows,
        [&](int64_t junction, const at::Tensor& x, const at::Tensor&) {
          if (StageJunction* found = stage.find(junction)) add(job, *found, x);
        },
        observer.tokens_seen);
  };
  stream(add_in_first_pass);
  decompose_all(job, stage, shared);
  JunctionWidths widths = job.widths;
  if (job.choose_widths) {
    widths = job.choose_widths(gather_spectra(comm, job, stage));
    sink.begin(widths);
  }
  if (needs_second_pass(job.map)) stream(add_in_second_pass);
  return widths;
}

int64_t sum_over_ranks(Communicator& comm, int64_t value) {
  at::Tensor sum = at::full({1}, value, at::kLong);
  comm.all_reduce_sum(sum);
  return sum.item<int64_t>();
}

JunctionSolution solve(StageJunction& junction, int64_t width) {
  if (junction.shared != nullptr) return junction.shared->solution_for(junction);
  JunctionSolution solution =
      std::move(*junction.decomposed).solve(width, std::move(junction.second));
  junction.decomposed.reset();
  junction.second.reset();
  return solution;
}

/// All ranks solve side by side. They meet after each junction, so that progress counts those of
/// all ranks.
std::vector<JunctionSolution> solve_all(Communicator& comm, const CalibrationJob& job,
                                        const JunctionWidths& widths, StageJunctions& stage,
                                        const SharedMaps& shared,
                                        const CalibrationObserver& observer) {
  for (const auto& map : shared) map->solve(widths.largest(), job.windows.numel());
  std::vector<JunctionSolution> solutions;
  for (int64_t solved = 0; solved < job.mapped_junctions();) {
    const bool more = solutions.size() < stage.junctions.size();
    if (more) {
      StageJunction& junction = stage.junctions[solutions.size()];
      const int64_t index = junction.setup.junction;
      solutions.push_back(solve(junction, widths.all.at(static_cast<size_t>(index))));
      observer.solved(index, solutions.back());
    }
    const int64_t now = sum_over_ranks(comm, more ? 1 : 0);
    solved += now;
    observer.junctions_solved(now);
  }
  return solutions;
}

/// M_inv [width, d] of the last junction of the rank before; undefined on the first rank.
at::Tensor exchange_inverse_maps(Communicator& comm, const CalibrationJob& job, int64_t width,
                                 const std::vector<JunctionSolution>& solutions) {
  std::unique_ptr<Transfer> sending;
  if (comm.rank() + 1 < comm.size()) {
    sending = comm.send(solutions.back().map.M_inv.contiguous(), comm.rank() + 1);
  }
  at::Tensor M_inv;
  if (comm.rank() > 0) {
    M_inv = at::empty({width, job.config.hidden_size}, at::dtype(at::kDouble).device(job.device));
    comm.receive(M_inv, comm.rank() - 1)->wait();
  }
  if (sending) sending->wait();
  return M_inv;
}

template <typename Load>
auto read(PhaseClock& clock, const Load& load) {
  const PhaseClock::Scope scope(clock, "read");
  return load();
}

/// Folds this rank's sublayers, once all of its junctions are solved (docs/method.md, "Folding").
/// `solutions` are those of its mapped junctions, in order. `width` is that of the junction which
/// the rank's first sublayer reads: the last one of the rank before, whose M_inv is received.
/// Collective.
void fold_stage(Communicator& comm, const CalibrationJob& job, int64_t width,
                const std::vector<JunctionSolution>& solutions, FoldedModelSink& sink,
                PhaseClock& clock) {
  at::Tensor M_inv = exchange_inverse_maps(comm, job, width, solutions);
  const PhaseClock::Scope scope(clock, "fold");
  const RankShard& shard = shard_of(comm, job);
  const at::ScalarType dtype = job.fold_dtype;
  auto solution = solutions.begin();
  if (shard.first_sublayer == 0) {
    const at::Tensor embedding =
        read(clock, [&] { return load_embedding(job.reader, job.config, at::kFloat); });
    sink.put_embedding(fold_embedding(embedding, solution->map.M.to(dtype)));
    M_inv = solution->map.M_inv;
    ++solution;
  }
  SublayerLoader loader(job, clock);
  for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
    const SublayerWeights dense = loader.take(sublayer);
    if (sublayer + 1 < shard.end_sublayer) loader.read_ahead(sublayer + 1);
    SublayerWeights folded = fold_input(dense, M_inv.to(dtype));
    M_inv = at::Tensor();
    if (solution != solutions.end()) {
      folded = fold_output(folded, solution->map.M.to(dtype));
      M_inv = solution->map.M_inv;
      ++solution;
    }
    if (job.shares_map(sublayer)) folded.shortcut = at::Tensor();  // M_inv·M, the identity
    sink.put_sublayer(folded);
  }
  if (shard.end_sublayer == job.config.num_sublayers()) {
    const HeadWeights head = read(clock, [&] { return load_head(job.reader, job.config, dtype); });
    sink.put_head(fold_head(head, M_inv.defined() ? M_inv.to(dtype) : M_inv));
  }
}

}  // namespace

void calibrate_pipeline(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                        const CalibrationObserver& observer, PhaseClock& clock) {
  const RankShard& shard = shard_of(comm, job);
  StageJunctions stage = make_stage_junctions(job, shard, clock);
  const SharedMaps shared = make_shared_maps(comm, job, stage);
  if (!job.choose_widths) sink.begin(job.widths);
  const JunctionWidths widths = take_moments(comm, job, stage, shared, sink, observer, clock);
  const std::vector<JunctionSolution> solutions =
      solve_all(comm, job, widths, stage, shared, observer);
  const int64_t width_before = widths.all.at(static_cast<size_t>(shard.first_sublayer));
  fold_stage(comm, job, width_before, solutions, sink, clock);
}

}  // namespace dotresize
