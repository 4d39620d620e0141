#include "worker/evaluation/vocabulary_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/errors.h"
#include "job/plan/block_sizes.h"
#include "worker/evaluation/divergence.h"
#include "worker/transformer/forward.h"

namespace dotresize {
namespace {

/// log Σ exp of a microbatch's logits over the blocks so far, and the logits of its targets.
class RunningLikelihood {
 public:
  /// targets: [tokens, 1] int64 on the device.
  explicit RunningLikelihood(at::Tensor targets)
      : targets_(std::move(targets)),
        largest_(at::full_like(targets_, -std::numeric_limits<double>::infinity(), at::kFloat)),
        sum_(at::zeros_like(targets_, at::kDouble)),
        target_(at::zeros_like(targets_, at::kFloat)) {}

  /// Adds logits [tokens, count] float32 of the vocabulary's rows from `first` on.
  void add(const at::Tensor& logits, int64_t first) {
    const at::Tensor largest = at::maximum(largest_, logits.amax(1, /*keepdim=*/true));
    sum_ *= (largest_ - largest).to(at::kDouble).exp();
    sum_ += (logits - largest).exp_().sum(1, /*keepdim=*/true, at::kDouble);
    largest_ = largest;
    const at::Tensor place = targets_ - first;
    const at::Tensor here = (place >= 0).logical_and(place < logits.size(1));
    target_ = at::where(here, logits.gather(1, place.clamp(0, logits.size(1) - 1)), target_);
  }

  /// −log p of each token's target, [tokens, 1] float64.
  at::Tensor nll() const { return largest_.to(at::kDouble) + sum_.log() - target_; }

 private:
  at::Tensor targets_;
  at::Tensor largest_;
  at::Tensor sum_;
  at::Tensor target_;
};

/// Drops the last position of each window, which predicts nothing but was given a target. `values`:
/// one for each token of the microbatch.
at::Tensor of_predicted_tokens(const at::Tensor& values, const at::Tensor& ids) {
  return values.view(ids.sizes()).narrow(1, 0, ids.size(1) - 1);
}

int64_t predicted_tokens(const at::Tensor& ids) { return ids.size(0) * (ids.size(1) - 1); }

double finite_sum(const at::Tensor& values, const at::Tensor& ids, const char* what) {
  const double sum = of_predicted_tokens(values, ids).sum().item<double>();
  if (std::isfinite(sum)) return sum;
  throw NonFiniteError(std::string(what) + " of the evaluation tokens is not finite");
}

Divergence sum_of_windows(const RunningDivergence& running, const at::Tensor& ids) {
  return {finite_sum(running.kl(), ids, "the KL divergence"),
          of_predicted_tokens(running.agrees(), ids).sum().item<int64_t>(), predicted_tokens(ids)};
}

at::Tensor logits_of(const at::Tensor& states, const at::Tensor& rows) {
  return at::linear(states, rows).to(at::kFloat);
}

}  // namespace

Vocabulary vocabulary_of(const at::Tensor& head) {
  return {head.size(0),
          [head](int64_t first, int64_t count) { return head.narrow(0, first, count); }};
}

std::vector<at::Tensor> final_states(const ModelConfig& config, const HeadWeights& head,
                                     std::vector<at::Tensor> x, at::ScalarType dtype) {
  for (at::Tensor& batch : x) {
    batch = final_state(config, head, batch.reshape({-1, batch.size(-1)}), dtype);
  }
  return x;
}

std::vector<EvaluationSums> vocabulary_sums(const Vocabulary& vocabulary,
                                            const std::vector<at::Tensor>& states,
                                            const std::vector<at::Tensor>& ids,
                                            const ReferencePredictions* reference) {
  std::vector<RunningLikelihood> losses;
  std::vector<RunningDivergence> divergences;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const at::Device device = states[i].device();
    losses.emplace_back(ids[i].to(device).roll(-1, 1).reshape({-1, 1}));
    if (reference != nullptr) divergences.emplace_back(ids[i].numel(), device);
  }
  const int64_t at_once = reference != nullptr ? kComparedVocabularyRows : kEvaluatedVocabularyRows;
  for (int64_t first = 0; first < vocabulary.size; first += at_once) {
    const int64_t count = std::min(at_once, vocabulary.size - first);
    const at::Tensor rows = vocabulary.rows(first, count);
    at::Tensor reference_rows;
    if (reference != nullptr) reference_rows = reference->vocabulary.rows(first, count);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const at::Tensor logits = logits_of(states[i], rows);
      losses[i].add(logits, first);
      if (reference == nullptr) continue;
      divergences[i].add(logits_of(reference->states[i], reference_rows), logits, first);
    }
  }
  std::vector<EvaluationSums> results;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EvaluationSums& sums = results.emplace_back();
    sums.loss = {finite_sum(losses[i].nll(), ids[i], "the negative log-likelihood"),
                 predicted_tokens(ids[i])};
    if (reference != nullptr) sums.divergence = sum_of_windows(divergences[i], ids[i]);
  }
  return results;
}

NegativeLogLikelihood window_nll(const ModelConfig& config, const HeadWeights& head,
                                 const at::Tensor& x, const at::Tensor& ids) {
  const auto states = final_states(config, head, {x}, head.weight.scalar_type());
  return vocabulary_sums(vocabulary_of(head.weight), states, {ids}, nullptr).front().loss;
}

}  // namespace dotresize
