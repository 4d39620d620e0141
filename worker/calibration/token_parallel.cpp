#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "job/model/tensor_table.h"
#include "worker/calibration/aligned_maps.h"
#include "worker/calibration/calibration.h"
#include "worker/calibration/fold_stage.h"
#include "worker/calibration/token_parallel_moments.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {
namespace {

/// What the loop over the sublayers carries from junction to junction.
class TokenParallelRun {
 public:
  TokenParallelRun(Communicator& comm, const CalibrationJob& job,
                   const CalibrationObserver& observer, PhaseClock& clock)
      : comm_(comm),
        job_(job),
        observer_(observer),
        clock_(clock),
        rotary_(to_device(make_rotary_table(job.config, job.windows.size(1)), job.device)),
        forms_(job.shortcut_forms(job.widths)),
        loader_(job.reader, job.config, job.fold_dtype, job.device),
        recorder_(job.journal, job.fold_dtype, job.device) {}

  /// Every rank gets the map of the junction, rotated into the last one, from the journal or from x
  /// [., ., d] of all ranks, and x becomes x·M.
  void solve(int64_t junction, Microbatches& x);
  /// The sublayer that reads the last solved junction, its in_proj folded, its out_proj still of
  /// full width. In the fold dtype; empty except on the owner.
  SublayerWeights fold_in_proj(int64_t sublayer);
  /// Starts to read the weights that fold_in_proj(sublayer) needs, if this rank owns them.
  void read_ahead(int64_t sublayer) {
    if (sublayer < job_.config.num_sublayers() && owns_sublayer(sublayer)) {
      loader_.read_ahead(sublayer);
    }
  }
  /// Broadcasts the owner's half folded sublayer in the compute dtype, and runs x through it.
  void forward(int64_t sublayer, const SublayerWeights& owned, Microbatches& x);
  /// On the owner of the sublayer that writes the last solved junction: what fold_in_proj gave,
  /// folded with that junction's M; or of the last sublayer, with that of last_map.
  SublayerWeights fold_out_proj(const SublayerWeights& folded, const at::Tensor& M) const;
  /// The map of a last junction of full width: the identity, unless it is rotated.
  JunctionMap last_map() const;
  /// Until all that this rank has solved is in the journal.
  void finish() { recorder_.finish(); }

  bool owns_sublayer(int64_t sublayer) const {
    return job_.plan.owner_of_sublayer(sublayer) == comm_.rank();
  }
  const JunctionMap& map() const { return map_; }

 private:
  JunctionMap solved_map(int64_t junction, const Microbatches& x, const JunctionMap& before);
  JunctionMap found_map(int64_t junction);
  /// Rotates the map into the one `before`, and keeps the factor of the shortcut between them.
  void align(int64_t junction, const JunctionMap& before, JunctionSolution& solution);
  const ShortcutForm& form(int64_t sublayer) const {
    return forms_.at(static_cast<size_t>(sublayer));
  }

  Communicator& comm_;
  const CalibrationJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  RotaryTable rotary_;
  std::vector<ShortcutForm> forms_;  ///< of the sublayers
  JunctionMap map_;                  ///< in the fold dtype
  at::Tensor A_;  ///< of the shortcut to the last solved junction, on its owner; in the fold dtype
  SublayerLoader loader_;
  JunctionRecorder recorder_;
};

void TokenParallelRun::align(int64_t junction, const JunctionMap& before,
                             JunctionSolution& solution) {
  if (junction == 0 || form(junction - 1).dense()) return;
  const at::Tensor M = solution.map.M.to(job_.fold_dtype);
  const Alignment found = align_maps(job_, before.M, M, *form(junction - 1).rank, clock_);
  solution.map = JunctionMap(at::mm(M.to(at::kDouble), found.turn));
  if (found.A.defined()) A_ = found.A.to(job_.fold_dtype);
}

JunctionMap TokenParallelRun::found_map(int64_t junction) {
  const bool factored = junction > 0 && form(junction - 1).rank.value_or(0) > 0;
  if (factored && job_.plan.owner_of_junction(junction) == comm_.rank()) {
    A_ = to_device(job_.journal.shortcut_A(junction).to(job_.fold_dtype), job_.device);
  }
  return job_.load_map(junction);
}

JunctionMap TokenParallelRun::solved_map(int64_t junction, const Microbatches& x,
                                         const JunctionMap& before) {
  const int owner = job_.plan.owner_of_junction(junction);
  at::Tensor M;
  if (std::optional<SolvedJunction> solved =
          solve_over_ranks(comm_, job_, junction, x, owner, clock_)) {
    align(junction, before, solved->solution);
    M = solved->solution.map.M.to(job_.fold_dtype);
    recorder_.record(junction, std::move(*solved), A_);
  }
  const int64_t width = job_.widths.all.at(static_cast<size_t>(junction));
  return JunctionMap(broadcast_tensor(comm_, M, {job_.config.hidden_size, width},
                                      at::dtype(job_.fold_dtype).device(job_.device), owner));
}

void TokenParallelRun::solve(int64_t junction, Microbatches& x) {
  JunctionMap before = std::exchange(map_, JunctionMap());
  if (junction > 0 && form(junction - 1).dense()) before = JunctionMap();
  A_.reset();
  map_ = job_.finished.contains(junction) ? found_map(junction) : solved_map(junction, x, before);
  const PhaseClock::Scope scope(clock_, "forward");
  const at::Tensor M = map_.M.to(at::kFloat);
  for (at::Tensor& batch : x) batch = at::matmul(batch, M);
  observer_.junctions_solved(1);
}

SublayerWeights TokenParallelRun::fold_in_proj(int64_t sublayer) {
  if (!owns_sublayer(sublayer)) return {};
  SublayerWeights weights;
  {
    const PhaseClock::Scope scope(clock_, "read");
    weights = loader_.take(sublayer);
  }
  const PhaseClock::Scope scope(clock_, "fold");
  return fold_input(weights, map_.M_inv);
}

void TokenParallelRun::forward(int64_t sublayer, const SublayerWeights& owned, Microbatches& x) {
  const int64_t width = job_.widths.all.at(static_cast<size_t>(sublayer));
  const SublayerWeights weights =
      broadcast_sublayer(comm_,
                         sublayer_tensors(job_.config, sublayer, SublayerForm::kFolded, width,
                                          job_.config.hidden_size),
                         to_device(to_dtype(owned, job_.compute_dtype), job_.device), sublayer,
                         job_.compute_dtype, job_.device, job_.plan.owner_of_sublayer(sublayer));
  const PhaseClock::Scope scope(clock_, "forward");
  for (at::Tensor& batch : x) {
    batch = sublayer_forward(job_.config, weights, rotary_, batch);
    observer_.tokens_seen(batch.size(0) * batch.size(1));
  }
}

SublayerWeights TokenParallelRun::fold_out_proj(const SublayerWeights& folded,
                                                const at::Tensor& M) const {
  const PhaseClock::Scope scope(clock_, "fold");
  const bool low_rank = !form(folded.sublayer).dense();
  SublayerWeights weights = folded;
  if (low_rank) weights.shortcut = at::Tensor();  // needs no M_inv·M
  if (M.defined()) weights = fold_output(weights, M);
  if (low_rank) set_shortcut_factor(weights, A_);
  return weights;
}

JunctionMap TokenParallelRun::last_map() const {
  const bool rotated = !form(job_.config.num_sublayers() - 1).dense();
  return rotated ? whole_map(job_, map_.M, clock_) : JunctionMap();
}

}  // namespace

void calibrate_token_parallel(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                              const CalibrationObserver& observer, PhaseClock& clock) {
  sink.begin(job.widths);
  TokenParallelRun run(comm, job, observer, clock);
  Microbatches x = embed_share(comm, job, at::kFloat, clock);
  run.solve(0, x);
  if (run.owns_sublayer(0)) fold_embedding_rows(job, run.map(), sink, clock);
  JunctionMap last;  // of a dense head

  for (int64_t sublayer = 0; sublayer < job.config.num_sublayers(); ++sublayer) {
    SublayerWeights folded = run.fold_in_proj(sublayer);
    run.read_ahead(sublayer + 1);
    const bool mapped = sublayer + 1 < job.mapped_junctions();
    if (mapped) {
      run.forward(sublayer, folded, x);
      run.solve(sublayer + 1, x);
    }
    if (!run.owns_sublayer(sublayer)) continue;
    if (!mapped) last = run.last_map();
    sink.put_sublayer(run.fold_out_proj(folded, mapped ? run.map().M : last.M));
  }
  run.finish();
  if (run.owns_sublayer(job.config.num_sublayers() - 1)) {
    fold_head_rows(job, job.head_sliced ? run.map() : last, sink, clock);
  }
  comm.barrier();  // every map is in the journal
}

}  // namespace dotresize
