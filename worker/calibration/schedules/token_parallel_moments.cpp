#include "worker/calibration/schedules/token_parallel_moments.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "worker/transformer/load.h"

namespace dotresize {
namespace {

/// Returns the largest l2 norm of a token x [d] over all ranks. Collective.
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

/// Slack of the bound: a rotation changes norms only by rounding, so one bound holds in both bases.
constexpr double kNormSlack = 1.01;

}  // namespace

JunctionOverRanks::JunctionOverRanks(Communicator& comm, const CalibrationJob& job,
                                     int64_t junction, const Microbatches& x, int owner,
                                     PhaseClock& clock)
    : comm_(comm),
      job_(job),
      setup_{junction,   job.config.hidden_size,
             job.map,    clock,
             job.device, SumBounds{job.windows.numel(), kNormSlack * max_token_norm(comm, x)}},
      owner_(owner),
      owns_(comm.rank() == owner) {
  if (job.map.sums().second.any()) x_ = x;
  first_.emplace(setup_);
  for (const at::Tensor& batch : x) first_->add(batch);
  for (at::Tensor& sum : first_->sums()) comm_.reduce_sum(sum, owner_);
  if (!owns_) first_.reset();
}

void JunctionOverRanks::decompose() {
  if (!owns_) return;
  decomposed_.emplace(std::move(*first_).finish(job_.windows.numel()));
  first_.reset();
}

void JunctionOverRanks::second_pass() {
  if (!job_.map.sums().second.any()) return;
  const at::Tensor rotation = broadcast_tensor(
      comm_, owns_ ? decomposed_->rotation() : at::Tensor(),
      {setup_.hidden_size, setup_.hidden_size}, at::dtype(at::kFloat).device(job_.device), owner_);
  second_.emplace(setup_, rotation);
  for (const at::Tensor& batch : x_) second_->add(batch);
  x_.clear();
  for (at::Tensor& sum : second_->moments.sums()) comm_.reduce_sum(sum, owner_);
  if (!owns_) second_.reset();
}

std::optional<SolvedJunction> JunctionOverRanks::solve() {
  if (!owns_) return std::nullopt;
  const int64_t width = job_.widths.all.at(static_cast<size_t>(setup_.junction));
  return std::move(*decomposed_).solve(width, std::move(second_));
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
