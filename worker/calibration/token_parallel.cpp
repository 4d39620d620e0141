#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "job/plan/token_windows.h"
#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_passes.h"
#include "worker/calibration/sublayer_loader.h"
#include "worker/maps/fold.h"
#include "worker/maps/map_algorithm.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/load.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/stage.h"

namespace dotresize {
namespace {

/// One rank's share of the samples, in microbatches: token ids, or the residual stream.
using Microbatches = std::vector<at::Tensor>;

/// The end of a rank's part of the microbatches; it begins at the end of the rank before.
int64_t end_of(int rank, const Communicator& comm, int64_t microbatches) {
  return microbatches * (rank + 1) / comm.size();
}

/// This rank's part of `windows` [samples, seqlen]. Whole microbatches are dealt out, the same ones
/// for any number of ranks: a matrix product of another shape would round differently.
Microbatches microbatches_of_rank(const Communicator& comm, const at::Tensor& windows) {
  const Microbatches all = windows.split(microbatch_samples(windows.size(1)));
  const auto count = static_cast<int64_t>(all.size());
  return {all.begin() + end_of(comm.rank() - 1, comm, count),
          all.begin() + end_of(comm.rank(), comm, count)};
}

/// The rank that has the first microbatch: those before it have none.
int owner_of_first_microbatch(const Communicator& comm, const at::Tensor& windows) {
  const int64_t samples = microbatch_samples(windows.size(1));
  const int64_t microbatches = (windows.size(0) + samples - 1) / samples;
  int rank = 0;
  while (end_of(rank, comm, microbatches) == 0) ++rank;
  return rank;
}

/// The largest l2 norm of a token x [d], over all ranks. Collective.
double max_token_norm(Communicator& comm, const Microbatches& x) {
  at::Tensor norms = at::zeros({comm.size()}, at::kDouble);
  for (const at::Tensor& batch : x) {
    const double norm = at::linalg_vector_norm(batch, 2, at::IntArrayRef{-1}, false, at::kDouble)
                            .max()
                            .item<double>();
    norms[comm.rank()] = std::max(norms[comm.rank()].item<double>(), norm);
  }
  comm.all_reduce_sum(norms);  // exact: all summands but one are zero
  return norms.max().item<double>();
}

/// A rotation changes norms by its rounding alone: with this factor one bound holds in both bases.
constexpr double kNormSlack = 1.01;

/// Every rank gets the embedding from its owner, looks up its tokens, and releases it.
Microbatches embed_all(Communicator& comm, const CalibrationJob& job, const Microbatches& ids,
                       at::Tensor& owned_embedding, PhaseClock& clock) {
  if (comm.rank() == 0) {
    const PhaseClock::Scope scope(clock, "read");
    owned_embedding = to_device(load_embedding(job.reader, job.config, at::kFloat), job.device);
  }
  const at::Tensor embedding =
      broadcast_tensor(comm, owned_embedding, {job.config.vocab_size, job.config.hidden_size},
                       at::dtype(at::kFloat).device(job.device), 0);
  Microbatches x;
  for (const at::Tensor& batch : ids) x.push_back(embed(embedding, batch));
  return x;
}

void reduce_all(Communicator& comm, std::vector<at::Tensor> sums, int root) {
  for (at::Tensor& sum : sums) comm.reduce_sum(sum, root);
}

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
        loader_(job, clock) {}

  /// Solves the junction from x [., ., d] of all ranks. The owner reports the solution, every rank
  /// gets the map, and x becomes x·M.
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

  bool owns_sublayer(int64_t sublayer) const {
    return job_.plan.owner_of_sublayer(sublayer) == comm_.rank();
  }
  const JunctionMap& map() const { return map_; }

 private:
  /// The passes over x. At the owner the sums are those of all ranks.
  std::optional<DecomposedJunction> first_pass(const JunctionSetup& setup, const Microbatches& x,
                                               int owner);
  SecondPass second_pass(const JunctionSetup& setup, const Microbatches& x,
                         const std::optional<DecomposedJunction>& decomposed, int owner);
  /// The precision that suits the first microbatch, whichever rank has it: the same one on all
  /// ranks, and for any number of them.
  CostPrecision agreed_precision(const JunctionSetup& setup, const Microbatches& x,
                                 const at::Tensor& rotation);

  Communicator& comm_;
  const CalibrationJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  RotaryTable rotary_;
  JunctionMap map_;
  SublayerLoader loader_;
};

void TokenParallelRun::solve(int64_t junction, Microbatches& x) {
  const int owner = job_.plan.owner_of_junction(junction);
  const int64_t d = job_.config.hidden_size;
  const int64_t k = job_.widths.largest();
  const JunctionSetup setup{
      junction,    d,
      job_.map,    clock_,
      job_.device, SumBounds{job_.windows.numel(), kNormSlack * max_token_norm(comm_, x)}};
  std::optional<DecomposedJunction> decomposed = first_pass(setup, x, owner);
  std::optional<SecondPass> second;
  if (needs_second_pass(job_.map)) second.emplace(second_pass(setup, x, decomposed, owner));
  if (decomposed) {
    const JunctionSolution solution = std::move(*decomposed).solve(k, std::move(second));
    observer_.solved(junction, solution);
    map_ = solution.map;
  }
  const at::TensorOptions options = at::dtype(at::kDouble).device(job_.device);
  map_.M = broadcast_tensor(comm_, map_.M, {d, k}, options, owner);
  map_.M_inv = broadcast_tensor(comm_, map_.M_inv, {k, d}, options, owner);

  const PhaseClock::Scope scope(clock_, "forward");
  const at::Tensor M = map_.M.to(at::kFloat);
  for (at::Tensor& batch : x) batch = at::matmul(batch, M);
  observer_.junctions_solved(1);
}

std::optional<DecomposedJunction> TokenParallelRun::first_pass(const JunctionSetup& setup,
                                                               const Microbatches& x, int owner) {
  FirstPass pass(setup,
                 setup.costs_in_first_pass() ? agreed_precision(setup, x, {}) : CostPrecision{});
  for (const at::Tensor& batch : x) pass.add(batch);
  reduce_all(comm_, pass.sums(), owner);
  if (comm_.rank() != owner) return std::nullopt;
  return std::move(pass).finish(job_.windows.numel());
}

SecondPass TokenParallelRun::second_pass(const JunctionSetup& setup, const Microbatches& x,
                                         const std::optional<DecomposedJunction>& decomposed,
                                         int owner) {
  const at::Tensor rotation = broadcast_tensor(
      comm_, decomposed ? decomposed->rotation() : at::Tensor(),
      {setup.hidden_size, setup.hidden_size}, at::dtype(at::kFloat).device(job_.device), owner);
  SecondPass pass(setup, rotation, agreed_precision(setup, x, rotation));
  for (const at::Tensor& batch : x) pass.add(batch);
  reduce_all(comm_, pass.costs().sums(), owner);
  return pass;
}

CostPrecision TokenParallelRun::agreed_precision(const JunctionSetup& setup, const Microbatches& x,
                                                 const at::Tensor& rotation) {
  if (!job_.tries_half_costs()) return {};
  at::Tensor error = at::zeros({1}, at::kDouble);
  if (comm_.rank() == owner_of_first_microbatch(comm_, job_.windows)) {
    error[0] = half_cost_error(setup, x.front(), rotation);
  }
  comm_.all_reduce_sum(error);  // zero except on one rank
  return CostPrecision::from_half_error(error.item<double>());
}

SublayerWeights TokenParallelRun::fold_in_proj(int64_t sublayer) {
  if (!owns_sublayer(sublayer)) return {};
  const SublayerWeights dense = loader_.take(sublayer);
  const PhaseClock::Scope scope(clock_, "fold");
  return fold_input(dense, map_.M_inv.to(job_.fold_dtype));
}

void TokenParallelRun::forward(int64_t sublayer, const SublayerWeights& owned, Microbatches& x) {
  const SublayerWeights weights = broadcast_sublayer(
      comm_, job_.config, to_device(to_dtype(owned, job_.compute_dtype), job_.device), sublayer,
      job_.widths.largest(), job_.config.hidden_size, job_.compute_dtype, job_.device,
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
  TokenParallelRun run(comm, job, observer, clock);
  at::Tensor embedding;  // only on its owner
  Microbatches x = embed_all(comm, job, microbatches_of_rank(comm, job.windows.to(job.device)),
                             embedding, clock);
  run.solve(0, x);
  if (embedding.defined()) {
    const PhaseClock::Scope scope(clock, "fold");
    sink.put_embedding(
        fold_embedding(std::exchange(embedding, {}), run.map().M.to(job.fold_dtype)));
  }

  for (int64_t sublayer = 0; sublayer < job.config.num_sublayers(); ++sublayer) {
    SublayerWeights folded = run.fold_in_proj(sublayer);
    run.read_ahead(sublayer + 1);
    const bool mapped = sublayer + 1 < job.mapped_junctions();
    if (mapped) {
      run.forward(sublayer, folded, x);
      run.solve(sublayer + 1, x);
    }
    if (!run.owns_sublayer(sublayer)) continue;
    const PhaseClock::Scope scope(clock, "fold");
    sink.put_sublayer(mapped ? fold_output(folded, run.map().M.to(job.fold_dtype)) : folded);
  }

  if (run.owns_sublayer(job.config.num_sublayers() - 1)) {
    const PhaseClock::Scope scope(clock, "fold");
    const at::Tensor M_inv = job.head_sliced ? run.map().M_inv.to(job.fold_dtype) : at::Tensor();
    sink.put_head(fold_head(load_head(job.reader, job.config, job.fold_dtype), M_inv));
  }
}

}  // namespace dotresize
