#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_estimator.h"
#include "worker/calibration/sublayer_broadcast.h"
#include "worker/calibration/sublayer_loader.h"
#include "worker/maps/fold.h"
#include "worker/transformer/stage.h"

namespace dotresize {
namespace {

/// This rank's share of the samples, in microbatches: token ids, or the residual stream.
using Microbatches = std::vector<at::Tensor>;

/// Of all microbatches, those from `begin` up to `end`.
struct Share {
  int64_t begin = 0;
  int64_t end = 0;
};

Share share_of(int rank, const Communicator& comm, int64_t microbatches) {
  return {microbatches * rank / comm.size(), microbatches * (rank + 1) / comm.size()};
}

/// Whole microbatches are dealt out, the same ones whatever the number of ranks: a matrix product
/// of another shape would round differently.
Microbatches my_ids(const Communicator& comm, const at::Tensor& windows) {
  const Microbatches all = windows.split(microbatch_samples(windows.size(1)));
  const Share mine = share_of(comm.rank(), comm, static_cast<int64_t>(all.size()));
  return {all.begin() + mine.begin, all.begin() + mine.end};
}

/// The rank that gets the first microbatch: those before it get none.
int owner_of_first(const Communicator& comm, const at::Tensor& windows) {
  const int64_t samples = microbatch_samples(windows.size(1));
  const int64_t microbatches = (windows.size(0) + samples - 1) / samples;
  int rank = 0;
  while (share_of(rank, comm, microbatches).end == 0) ++rank;
  return rank;
}

/// Every rank gets the embedding from its owner, looks up its tokens, and lets go of it.
Microbatches embed_all(Communicator& comm, const CalibrationJob& job, const Microbatches& ids,
                       at::Tensor& owned_embedding, PhaseClock& clock) {
  at::Tensor embedding;
  if (comm.rank() == 0) {
    const PhaseClock::Scope scope(clock, "read");
    embedding = owned_embedding =
        to_device(load_embedding(job.reader, job.config, at::kFloat), job.device);
  } else {
    embedding = at::empty({job.config.vocab_size, job.config.hidden_size},
                          at::dtype(at::kFloat).device(job.device));
  }
  comm.broadcast(embedding, 0);
  Microbatches x;
  for (const at::Tensor& batch : ids) x.push_back(embed(embedding, batch));
  return x;
}

/// The largest l2 norm of a token, over all ranks.
double largest_norm(Communicator& comm, const Microbatches& x) {
  at::Tensor norms = at::zeros({comm.size()}, at::kDouble);
  for (const at::Tensor& batch : x) {
    const double norm = at::linalg_vector_norm(batch, 2, at::IntArrayRef{-1}, false, at::kDouble)
                            .max()
                            .item<double>();
    norms[comm.rank()] = std::max(norms[comm.rank()].item<double>(), norm);
  }
  comm.all_reduce_sum(norms);
  return norms.max().item<double>();
}

void reduce_all(Communicator& comm, std::vector<at::Tensor> sums, int root) {
  for (at::Tensor& sum : sums) comm.reduce_sum(sum, root);
}

at::Tensor broadcast_or_empty(Communicator& comm, const at::Tensor& tensor, at::IntArrayRef shape,
                              const at::TensorOptions& options, int root) {
  at::Tensor shared = comm.rank() == root ? tensor.contiguous() : at::empty(shape, options);
  comm.broadcast(shared, root);
  return shared;
}

/// What the loop over the sublayers carries from junction to junction.
class Walk {
 public:
  Walk(Communicator& comm, const CalibrationJob& job, const CalibrationObserver& observer,
       PhaseClock& clock)
      : comm_(comm),
        job_(job),
        observer_(observer),
        clock_(clock),
        rotary_(to_device(make_rotary_table(job.config, job.windows.size(1)), job.device)),
        loader_(job, clock) {}

  /// Solves the junction from x [., ., d] of all ranks. The owner keeps the diagnostics, every rank
  /// gets the map, and x becomes x·M.
  void solve(int64_t junction, Microbatches& x);
  /// The sublayer that reads the last solved junction, its readers folded, its writers still of
  /// full width. In the fold dtype; empty but on the owner.
  SublayerWeights fold_readers(int64_t sublayer);
  /// Gets the weights that fold_readers(sublayer) needs on their way. Does nothing where they are
  /// another rank's.
  void read_ahead(int64_t sublayer) {
    if (sublayer < job_.config.num_sublayers() && owns_sublayer(sublayer)) {
      loader_.read_ahead(sublayer);
    }
  }
  /// Broadcasts the owner's half folded sublayer in the compute dtype, and runs x through it.
  void forward(int64_t sublayer, const SublayerWeights& owned, Microbatches& x);

  /// All ranks take the costs in the precision that suits the first microbatch, whoever has it: the
  /// same one for any number of ranks.
  void settle_cost_dtype(JunctionEstimator& estimator, const Microbatches& x);

  bool owns_sublayer(int64_t sublayer) const {
    return job_.plan.owner_of_sublayer(sublayer) == comm_.rank();
  }
  const JunctionMap& map() const { return map_; }

 private:
  Communicator& comm_;
  const CalibrationJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  RotaryTable rotary_;
  JunctionMap map_;
  SublayerLoader loader_;
};

void Walk::solve(int64_t junction, Microbatches& x) {
  const int owner = job_.plan.owner_of_junction(junction);
  const int64_t d = job_.config.hidden_size;
  const int64_t k = job_.map.width;
  const auto on_device = at::device(job_.device);
  JunctionEstimator estimator(junction, d, job_.map, clock_, job_.device);
  if (job_.tries_half_costs()) estimator.try_half_costs();
  estimator.make_reproducible(job_.windows.numel(), largest_norm(comm_, x));
  if (!estimator.needs_second_pass()) settle_cost_dtype(estimator, x);
  for (const at::Tensor& batch : x) estimator.add(batch);
  reduce_all(comm_, estimator.first_sums(), owner);
  if (comm_.rank() == owner) estimator.decompose(job_.windows.numel());
  if (estimator.needs_second_pass()) {
    estimator.set_rotation(broadcast_or_empty(comm_, estimator.rotation(), {d, d},
                                              on_device.dtype(at::kFloat), owner));
    settle_cost_dtype(estimator, x);
    for (const at::Tensor& batch : x) estimator.add_rotated(batch);
    reduce_all(comm_, estimator.second_sums(), owner);
  }
  if (comm_.rank() == owner) {
    const JunctionSolution solution = estimator.solve(job_.windows.numel());
    observer_.solved(junction, solution);
    map_ = solution.map;
  }
  map_.M = broadcast_or_empty(comm_, map_.M, {d, k}, on_device.dtype(at::kDouble), owner);
  map_.M_inv = broadcast_or_empty(comm_, map_.M_inv, {k, d}, on_device.dtype(at::kDouble), owner);

  const PhaseClock::Scope scope(clock_, "forward");
  const at::Tensor M = map_.M.to(at::kFloat);
  for (at::Tensor& batch : x) batch = at::matmul(batch, M);
  observer_.junctions_solved(1);
}

void Walk::settle_cost_dtype(JunctionEstimator& estimator, const Microbatches& x) {
  if (!estimator.must_settle_cost_dtype()) return;
  at::Tensor error = at::zeros({1}, at::kDouble);
  if (comm_.rank() == owner_of_first(comm_, job_.windows)) {
    error[0] = estimator.half_cost_error(x.front());
  }
  comm_.all_reduce_sum(error);  // zero but for one rank's
  estimator.settle_cost_dtype(error.item<double>());
}

SublayerWeights Walk::fold_readers(int64_t sublayer) {
  if (!owns_sublayer(sublayer)) return {};
  const SublayerWeights dense = loader_.take(sublayer);
  const PhaseClock::Scope scope(clock_, "fold");
  return fold_input(dense, map_.M_inv.to(job_.fold_dtype));
}

void Walk::forward(int64_t sublayer, const SublayerWeights& owned, Microbatches& x) {
  const SublayerWeights weights = broadcast_sublayer(
      comm_, job_.config, to_device(to_dtype(owned, job_.compute_dtype), job_.device), sublayer,
      job_.map.width, job_.config.hidden_size, job_.compute_dtype, job_.device,
      job_.plan.owner_of_sublayer(sublayer));
  const PhaseClock::Scope scope(clock_, "forward");
  for (at::Tensor& batch : x) {
    batch = sublayer_forward(job_.config, weights, rotary_, batch);
    observer_.tokens_seen(batch.size(0) * batch.size(1));
  }
}

}  // namespace

void calibrate_token_parallel(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                              const CalibrationObserver& observer, PhaseClock& clock) {
  sink.begin(job.widths);
  Walk walk(comm, job, observer, clock);
  at::Tensor embedding;  // on its owner alone
  Microbatches x = embed_all(comm, job, my_ids(comm, job.windows.to(job.device)), embedding, clock);
  walk.solve(0, x);
  if (embedding.defined()) {
    const PhaseClock::Scope scope(clock, "fold");
    sink.put_embedding(
        fold_embedding(std::exchange(embedding, {}), walk.map().M.to(job.fold_dtype)));
  }

  for (int64_t sublayer = 0; sublayer < job.config.num_sublayers(); ++sublayer) {
    SublayerWeights folded = walk.fold_readers(sublayer);
    walk.read_ahead(sublayer + 1);
    const bool mapped = sublayer + 1 < job.mapped_junctions();
    if (mapped) {
      walk.forward(sublayer, folded, x);
      walk.solve(sublayer + 1, x);
    }
    if (!walk.owns_sublayer(sublayer)) continue;
    const PhaseClock::Scope scope(clock, "fold");
    sink.put_sublayer(mapped ? fold_output(folded, walk.map().M.to(job.fold_dtype)) : folded);
  }

  if (walk.owns_sublayer(job.config.num_sublayers() - 1)) {
    const PhaseClock::Scope scope(clock, "fold");
    const at::Tensor unmap = job.head_sliced ? walk.map().M_inv.to(job.fold_dtype) : at::Tensor();
    sink.put_head(fold_head(load_head(job.reader, job.config, job.fold_dtype), unmap));
  }
}

}  // namespace dotresize
