#include "worker/calibration/token_parallel_moments.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "worker/maps/map_algorithm.h"
#include "worker/transformer/load.h"

namespace dotresize {
namespace {

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

void reduce_all(Communicator& comm, std::vector<at::Tensor> sums, int root) {
  for (at::Tensor& sum : sums) comm.reduce_sum(sum, root);
}

/// The passes over one junction's x.
class JunctionOverRanks {
 public:
  JunctionOverRanks(Communicator& comm, const CalibrationJob& job, const JunctionSetup& setup,
                    const Microbatches& x, int owner)
      : comm_(comm), job_(job), setup_(setup), x_(x), owner_(owner) {}

  std::optional<DecomposedJunction> first_pass();
  SecondPass second_pass(const std::optional<DecomposedJunction>& decomposed);

 private:
  /// The precision that suits the first microbatch, whichever rank has it: the same one on all
  /// ranks, and for any number of them.
  CostPrecision agreed_precision(const at::Tensor& rotation);

  Communicator& comm_;
  const CalibrationJob& job_;
  const JunctionSetup& setup_;
  const Microbatches& x_;
  int owner_;
};

std::optional<DecomposedJunction> JunctionOverRanks::first_pass() {
  FirstPass pass(setup_, setup_.costs_in_first_pass() ? agreed_precision({}) : CostPrecision{});
  for (const at::Tensor& batch : x_) pass.add(batch);
  reduce_all(comm_, pass.sums(), owner_);
  if (comm_.rank() != owner_) return std::nullopt;
  return std::move(pass).finish(job_.windows.numel());
}

SecondPass JunctionOverRanks::second_pass(const std::optional<DecomposedJunction>& decomposed) {
  const at::Tensor rotation = broadcast_tensor(
      comm_, decomposed ? decomposed->rotation() : at::Tensor(),
      {setup_.hidden_size, setup_.hidden_size}, at::dtype(at::kFloat).device(job_.device), owner_);
  SecondPass pass(setup_, rotation, agreed_precision(rotation));
  for (const at::Tensor& batch : x_) pass.add(batch);
  reduce_all(comm_, pass.costs().sums(), owner_);
  return pass;
}

CostPrecision JunctionOverRanks::agreed_precision(const at::Tensor& rotation) {
  if (!job_.tries_half_costs()) return {};
  at::Tensor error = at::zeros({1}, at::kDouble);
  if (comm_.rank() == owner_of_first_microbatch(comm_, job_.windows)) {
    error[0] = half_cost_error(setup_, x_.front(), rotation);
  }
  comm_.all_reduce_sum(error);  // zero except on one rank
  return CostPrecision::from_half_error(error.item<double>());
}

}  // namespace

std::optional<SolvedJunction> solve_over_ranks(Communicator& comm, const CalibrationJob& job,
                                               int64_t junction, const Microbatches& x, int owner,
                                               PhaseClock& clock) {
  const JunctionSetup setup{
      junction,   job.config.hidden_size,
      job.map,    clock,
      job.device, SumBounds{job.windows.numel(), kNormSlack * max_token_norm(comm, x)}};
  JunctionOverRanks passes(comm, job, setup, x, owner);
  std::optional<DecomposedJunction> decomposed = passes.first_pass();
  std::optional<SecondPass> second;
  if (needs_second_pass(job.map)) second.emplace(passes.second_pass(decomposed));
  if (!decomposed) return std::nullopt;
  const int64_t width = job.widths.all.at(static_cast<size_t>(junction));
  return std::move(*decomposed).solve(width, std::move(second));
}

Microbatches embed_share(Communicator& comm, const CalibrationJob& job, at::ScalarType dtype,
                         PhaseClock& clock) {
  const PhaseClock::Scope scope(clock, "read");
  Microbatches x;
  for (const at::Tensor& ids : microbatches_of_rank(comm, job.windows)) {
    x.push_back(embed_from(job.reader, job.config, ids, dtype, job.device));
  }
  return x;
}

}  // namespace dotresize
