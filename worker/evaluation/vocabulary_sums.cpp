#include "worker/evaluation/vocabulary_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/errors.h"
#include "job/plan/block_sizes.h"
#include "worker/transformer/linear.h"

// KL of the logits p of the reference and q of the model, with Z = log Σ exp of each:
//   KL(P ‖ Q) = Σ P·((p − Z_p) − (q − Z_q)) = Σ P·(p − q) − Z_p + Z_q.
// If the two models hardly differ, this is a small difference of numbers as large as the logits.
// Float64 rounding leaves an error of about 1e-15 of them.
namespace dotresize {
namespace {

/// log Σ exp of a microbatch's logits over the blocks so far, and the logits of its targets. All
/// are [tokens, 1].
struct RunningLikelihood {
  at::Tensor targets;  ///< int64
  at::Tensor largest;  ///< largest logit, float32
  at::Tensor sum;      ///< Σ exp(logit − largest), float64
  at::Tensor target;   ///< float32
};

}  // namespace

double NegativeLogLikelihood::perplexity() const {
  return std::exp(nll / static_cast<double>(tokens));
}

double rounded_nats(double value) {
  if (!(value > 0.0)) return 0.0;
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 3.0);
  return std::round(value / unit) * unit;
}

Vocabulary vocabulary_of(const at::Tensor& head, const std::optional<double>& logit_cap) {
  return {head.size(0),
          [head](int64_t first, int64_t count) { return head.narrow(0, first, count); }, logit_cap};
}

std::vector<EvaluationSums> vocabulary_sums(const Vocabulary& vocabulary,
                                            const std::vector<at::Tensor>& states,
                                            const std::vector<at::Tensor>& ids,
                                            const ReferencePredictions* reference) {
  std::vector<RunningLikelihood> losses;
  std::vector<RunningDivergence> divergences;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const at::Device device = states[i].device();
    const at::Tensor targets = ids[i].to(device).roll(-1, 1).reshape({-1, 1});
    losses.push_back({targets,
                      at::full_like(targets, -std::numeric_limits<double>::infinity(), at::kFloat),
                      at::zeros_like(targets, at::kDouble), at::zeros_like(targets, at::kFloat)});
    if (reference != nullptr) divergences.emplace_back(ids[i].numel(), device);
  }
  const int64_t at_once = reference != nullptr ? kComparedVocabularyRows : kEvaluatedVocabularyRows;
  for (int64_t first = 0; first < vocabulary.size; first += at_once) {
    const int64_t count = std::min(at_once, vocabulary.size - first);
    const at::Tensor rows = vocabulary.rows(first, count);
    at::Tensor reference_rows;
    if (reference != nullptr) reference_rows = reference->vocabulary.rows(first, count);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const at::Tensor logits = logits_of(rows, states[i], vocabulary.logit_cap);
      RunningLikelihood& loss = losses[i];
      const at::Tensor largest = at::maximum(loss.largest, logits.amax(1, /*keepdim=*/true));
      loss.sum *= (loss.largest - largest).to(at::kDouble).exp();
      loss.sum += (logits - largest).exp_().sum(1, /*keepdim=*/true, at::kDouble);
      loss.largest = largest;
      const at::Tensor place = loss.targets - first;
      const at::Tensor here = (place >= 0).logical_and(place < logits.size(1));
      loss.target =
          at::where(here, logits.gather(1, place.clamp(0, logits.size(1) - 1)), loss.target);
      if (reference == nullptr) continue;
      const at::Tensor of_reference =
          logits_of(reference_rows, reference->states[i], reference->vocabulary.logit_cap);
      divergences[i].add(of_reference, logits, first);
    }
  }
  std::vector<EvaluationSums> results;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EvaluationSums& sums = results.emplace_back();
    // The last position of each window predicts nothing, but was given a target.
    const auto predicted = [&](const at::Tensor& values) {
      return values.view(ids[i].sizes()).narrow(1, 0, ids[i].size(1) - 1);
    };
    const auto finite_sum = [&](const at::Tensor& values, const char* what) {
      const double sum = predicted(values).sum().item<double>();
      if (std::isfinite(sum)) return sum;
      throw NonFiniteError(std::string(what) + " of the evaluation tokens is not finite");
    };
    const int64_t tokens = ids[i].size(0) * (ids[i].size(1) - 1);
    const at::Tensor nll =
        losses[i].largest.to(at::kDouble) + losses[i].sum.log() - losses[i].target;
    sums.loss = {finite_sum(nll, "the negative log-likelihood"), tokens};
    if (reference == nullptr) continue;
    const double kl = finite_sum(divergences[i].kl(), "the KL divergence");
    sums.divergence = {kl, predicted(divergences[i].agrees()).sum().item<int64_t>(), tokens};
  }
  return results;
}

void EvaluationSums::add(const EvaluationSums& others) {
  loss.nll += others.loss.nll;
  loss.tokens += others.loss.tokens;
  if (!others.divergence) return;
  if (!divergence) divergence.emplace();
  divergence->kl += others.divergence->kl;
  divergence->agreeing += others.divergence->agreeing;
  divergence->tokens += others.divergence->tokens;
}

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
