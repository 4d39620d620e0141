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
        recorder_(job.journal, job.fold_dtype, job.device, !job.shard(comm).overlaps) {}

  /// Every rank gets the map of the junction, from the journal or from x [., ., d] of all ranks,
  /// and x becomes x·M.
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
  /// What the owner of the sublayer has got from fold_in_proj, folded with the map behind it, which
  /// is solved, unless the last junction has none: both maps rotated into those before them.
  SublayerWeights fold_out_proj(const SublayerWeights& folded);
  /// That of the last junction on the last owner, after fold_out_proj; without M: the identity.
  const JunctionMap& last_map() const { return last_; }
  /// Gives the rotation of the junction behind the sublayer to the owner of the next one.
  void hand_over(int64_t sublayer);
  /// Broadcasts the owner's half folded sublayer in the compute dtype, and runs x through it.
  void forward(int64_t sublayer, const SublayerWeights& owned, Microbatches& x);
  /// Until all that this rank has solved is in the journal.
  void finish() { recorder_.finish(); }

  bool owns_sublayer(int64_t sublayer) const {
    return job_.plan.owner_of_sublayer(sublayer) == comm_.rank();
  }
  const JunctionMap& map() const { return map_; }

 private:
  JunctionMap solved_map(int64_t junction, const Microbatches& x);
  const ShortcutForm& form(int64_t sublayer) const {
    return forms_.at(static_cast<size_t>(sublayer));
  }
  /// Whether this rank rotates the map of the junction into the one before.
  bool aligns(int64_t junction) const {
    return junction > 0 && !form(junction - 1).dense() && owns_sublayer(junction - 1);
  }

  Communicator& comm_;
  const CalibrationJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  RotaryTable rotary_;
  JunctionMap map_;                  ///< in the fold dtype; the stream is mapped by it, unrotated
  std::vector<ShortcutForm> forms_;  ///< of the sublayers
  MapRotation rotation_;             ///< on the owner, of the junction that its next sublayer reads
  Alignment alignment_;              ///< on the owner, of the maps around that sublayer
  JunctionMap last_;
  SublayerLoader loader_;
  JunctionRecorder recorder_;
};

JunctionMap TokenParallelRun::solved_map(int64_t junction, const Microbatches& x) {
  const int owner = job_.plan.owner_of_junction(junction);
  at::Tensor M;
  if (std::optional<SolvedJunction> solved =
          solve_over_ranks(comm_, job_, junction, x, owner, clock_)) {
    M = solved->solution.map.M.to(job_.fold_dtype);
    recorder_.record(junction, std::move(*solved));
  }
  const int64_t width = job_.widths.all.at(static_cast<size_t>(junction));
  return JunctionMap(broadcast_tensor(comm_, M, {job_.config.hidden_size, width},
                                      at::dtype(job_.fold_dtype).device(job_.device), owner));
}

void TokenParallelRun::solve(int64_t junction, Microbatches& x) {
  JunctionMap before = std::exchange(map_, JunctionMap());
  if (!aligns(junction)) before = JunctionMap();
  const bool found = job_.finished.contains(junction);
  map_ = found ? job_.load_map(junction) : solved_map(junction, x);
  if (before.M.defined()) {
    alignment_ = align_maps(job_, before, map_, *form(junction - 1).rank, clock_);
  }
  const PhaseClock::Scope scope(clock_, "forward");
  const at::Tensor M = map_.M.to(at::kFloat);
  for (at::Tensor& batch : x) batch = at::matmul(batch, M);
  found ? observer_.junctions_found(1) : observer_.junctions_solved(1);
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

SublayerWeights TokenParallelRun::fold_out_proj(const SublayerWeights& folded) {
  const PhaseClock::Scope scope(clock_, "fold");
  const ShortcutForm& form = this->form(folded.sublayer);
  SublayerWeights weights = folded;
  if (rotation_.R.defined()) {
    const at::Tensor R = rotation_.R.to(job_.fold_dtype);
    for (Linear& linear : weights.in_proj) linear.weight = at::mm(linear.weight, R);
    weights.shortcut = at::mm(R.t(), weights.shortcut);
  }
  if (folded.sublayer + 1 == job_.mapped_junctions()) {
    last_ = form.dense() ? JunctionMap() : whole_map(job_, rotation_.of(map_.M), clock_);
    return fold_behind(weights, last_, {}, form);
  }
  if (form.dense()) {
    rotation_ = {};
  } else {
    rotation_.turn(std::exchange(alignment_, {}));
  }
  last_ = JunctionMap(rotation_.of(map_.M).to(job_.fold_dtype));
  const at::Tensor A = rotation_.A.defined() ? rotation_.A.to(job_.fold_dtype) : at::Tensor();
  return fold_behind(weights, last_, {A, {}}, form);
}

void TokenParallelRun::hand_over(int64_t sublayer) {
  if (sublayer + 1 >= job_.config.num_sublayers() || form(sublayer).dense()) return;
  const int owner = job_.plan.owner_of_sublayer(sublayer);
  const int next = job_.plan.owner_of_sublayer(sublayer + 1);
  if (owner == next) return;
  const int64_t width = job_.widths.all.at(static_cast<size_t>(sublayer) + 1);
  rotation_.R = broadcast_tensor(comm_, rotation_.R, {width, width},
                                 at::dtype(at::kDouble).device(job_.device), owner);
  if (comm_.rank() != next) rotation_ = {};
}

}  // namespace

void calibrate_token_parallel(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                              const CalibrationObserver& observer, PhaseClock& clock) {
  sink.begin(job.widths);
  TokenParallelRun run(comm, job, observer, clock);
  Microbatches x = embed_share(comm, job, at::kFloat, clock);
  run.solve(0, x);
  if (run.owns_sublayer(0)) fold_embedding_rows(job, run.map(), sink, clock);

  for (int64_t sublayer = 0; sublayer < job.config.num_sublayers(); ++sublayer) {
    SublayerWeights folded = run.fold_in_proj(sublayer);
    run.read_ahead(sublayer + 1);
    const bool mapped = sublayer + 1 < job.mapped_junctions();
    if (mapped) {
      run.forward(sublayer, folded, x);
      run.solve(sublayer + 1, x);
    }
    if (run.owns_sublayer(sublayer)) sink.put_sublayer(run.fold_out_proj(folded));
    run.hand_over(sublayer);
  }
  run.finish();
  if (run.owns_sublayer(job.config.num_sublayers() - 1)) {
    fold_head_rows(job, run.last_map(), sink, clock);
  }
  comm.barrier();  // every map is in the journal
}

}  // namespace dotresize
