// KL of the logits p of the reference and q of the model, with Z = log Σ exp of each:
//   KL(P ‖ Q) = Σ P·((p − Z_p) − (q − Z_q)) = Σ P·(p − q) − Z_p + Z_q.
// If the two models hardly differ, this is a small difference of numbers as large as the logits.
// Float64 rounding leaves an error of about 1e-15 of them.
#include "worker/evaluation/divergence.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "job/plan/block_sizes.h"

namespace dotresize {

at::Tensor RunningDivergence::Side::advance(const at::Tensor& logits, int64_t first) {
  const auto [values, places] = at::max(logits, 1, /*keepdim=*/true);
  likeliest = at::where(values > largest, places + first, likeliest);
  const at::Tensor new_largest = at::maximum(largest, values.to(at::kDouble));
  at::Tensor factor = (largest - new_largest).exp_();
  sum *= factor;
  largest = new_largest;
  return factor;
}

RunningDivergence::RunningDivergence(int64_t tokens, at::Device device) {
  const auto options = at::device(device).dtype(at::kDouble);
  weighted_ = at::zeros({tokens, 1}, options);
  for (Side* side : {&p_, &q_}) {
    side->largest = at::full_like(weighted_, -std::numeric_limits<double>::infinity());
    side->likeliest = at::zeros({tokens, 1}, options.dtype(at::kLong));
    side->sum = at::zeros_like(weighted_);
  }
}

void RunningDivergence::add(const at::Tensor& reference, const at::Tensor& model, int64_t first) {
  weighted_ *= p_.advance(reference, first);
  q_.advance(model, first);
  const int64_t tokens = reference.size(0);
  for (int64_t begin = 0; begin < tokens; begin += kComparedTokens) {
    const int64_t count = std::min(kComparedTokens, tokens - begin);
    const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, begin, count); };
    const at::Tensor p = part(reference).to(at::kDouble);
    at::Tensor q = part(model).to(at::kDouble);
    const at::Tensor weights = (p - part(p_.largest)).exp_();
    part(p_.sum) += weights.sum(1, /*keepdim=*/true);
    part(weighted_) += (p - q).mul_(weights).sum(1, /*keepdim=*/true);
    part(q_.sum) += q.sub_(part(q_.largest)).exp_().sum(1, /*keepdim=*/true);
  }
}

at::Tensor RunningDivergence::kl() const {
  const at::Tensor p_log_sum = p_.largest + p_.sum.log();
  const at::Tensor q_log_sum = q_.largest + q_.sum.log();
  return (weighted_ / p_.sum - p_log_sum + q_log_sum).squeeze(1);
}

at::Tensor RunningDivergence::agrees() const { return (p_.likeliest == q_.likeliest).squeeze(1); }

}  // namespace dotresize
