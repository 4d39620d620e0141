#include "worker/transformer/gradient/loss_gradient.h"

#include <ATen/ATen.h>
#include <ATen/core/PhiloxRNGEngine.h>

#include <cmath>
#include <limits>

#include "job/plan/block_sizes.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/gradient/backward.h"
#include "worker/transformer/linear.h"

namespace dotresize {
namespace {

using Cap = std::optional<double>;  ///< ModelConfig::logit_cap

/// Multiplies the gradient at these logits, in place, by their derivative with respect to what the
/// cap limits.
void before_cap(at::Tensor& gradient, const at::Tensor& logits, const Cap& cap) {
  if (cap) gradient.mul_(1.0 - (logits / *cap).square());
}

/// Returns the gradients of the labels' logits, W[label] [tokens, d] float32.
at::Tensor label_rows(const at::Tensor& head, const at::Tensor& states, const at::Tensor& labels,
                      const Cap& cap) {
  at::Tensor rows = head.index_select(0, labels).to(at::kFloat);
  if (!cap) return rows;
  const at::Tensor logits = (states.to(at::kFloat) * rows).sum(1, /*keepdim=*/true);
  before_cap(rows, capped(logits, cap), cap);
  return rows;
}

/// Calls visit(rows, logits [tokens, count] float32) block by block.
template <class Visit>
void for_each_block(const at::Tensor& head, const at::Tensor& normed, const Cap& cap,
                    const Visit& visit) {
  for (const at::Tensor& rows : head.split(kGradientVocabularyRows)) {
    visit(rows, logits_of(rows, normed, cap));
  }
}

/// Returns log Σ exp of each token's logits, [tokens, 1] float64.
at::Tensor log_sums(const at::Tensor& head, const at::Tensor& normed, const Cap& cap) {
  at::Tensor largest = at::full({normed.size(0), 1}, -std::numeric_limits<float>::infinity(),
                                normed.options().dtype(at::kFloat));
  at::Tensor sum = at::zeros_like(largest, at::kDouble);
  for_each_block(head, normed, cap, [&](const at::Tensor&, const at::Tensor& logits) {
    const at::Tensor before = largest;
    largest = at::maximum(before, logits.amax(1, /*keepdim=*/true));
    sum *= (before - largest).to(at::kDouble).exp();
    sum += (logits - largest).exp_().sum(1, /*keepdim=*/true, at::kDouble);
  });
  return largest.to(at::kDouble) + sum.log();
}

/// Returns probabilities [tokens, n] float32 · rows [n, d]: [tokens, d] float32.
at::Tensor times_rows(const at::Tensor& probabilities, const at::Tensor& rows) {
  if (rows.scalar_type() == at::kHalf) return half_product(probabilities, rows);
  return at::mm(probabilities.to(rows.scalar_type()), rows).to(at::kFloat);
}

/// Returns the gradient with respect to the model's final states: (p − (1 − s) q − s e_label)·W,
/// with the model's p and the target's q.
at::Tensor states_gradient(const at::Tensor& head, const at::Tensor& states,
                           const TargetPredictions& target, const Cap& cap) {
  const at::Tensor log_sum = log_sums(head, states, cap).to(at::kFloat);
  const at::Tensor target_log_sum = log_sums(target.head, target.states, cap).to(at::kFloat);
  const at::Tensor share = target.labels.ge(0).to(at::kFloat).mul_(target.label_share).unsqueeze(1);
  at::Tensor gradient = at::zeros(states.sizes(), states.options().dtype(at::kFloat));
  int64_t first = 0;
  for_each_block(head, states, cap, [&](const at::Tensor& rows, const at::Tensor& logits) {
    const at::Tensor of_target = target.head.narrow(0, first, rows.size(0));
    at::Tensor difference = (logits - log_sum).exp_();
    difference -=
        (logits_of(of_target, target.states, cap) - target_log_sum).exp_().mul_(1.0 - share);
    before_cap(difference, logits, cap);
    gradient += times_rows(difference, rows);
    first += rows.size(0);
  });
  at::Tensor labelled = label_rows(head, states, target.labels.clamp_min(0), cap);
  return gradient.sub_(labelled.mul_(share));
}

/// Returns the gradient with respect to the normed stream [tokens, d] in the compute dtype: p·W -
/// W[label], float32.
at::Tensor normed_gradient(const at::Tensor& head, const at::Tensor& normed,
                           const at::Tensor& uniforms, const Cap& cap) {
  const at::Tensor log_sum = log_sums(head, normed, cap).to(at::kFloat);
  at::Tensor gradient = at::zeros(normed.sizes(), normed.options().dtype(at::kFloat));
  // The label is the token at which the cumulative probability exceeds the uniform number. Sums are
  // float32 within a block.
  const at::Tensor drawn = uniforms.to(normed.device()).unsqueeze(1);
  at::Tensor mass = at::zeros_like(drawn);
  at::Tensor labels = at::zeros({normed.size(0)}, drawn.options().dtype(at::kLong));
  for_each_block(head, normed, cap, [&](const at::Tensor& rows, const at::Tensor& logits) {
    at::Tensor probabilities = (logits - log_sum).exp_();
    labels += (probabilities.cumsum(1) <= (drawn - mass).to(at::kFloat)).sum(1);
    mass += probabilities.sum(1, /*keepdim=*/true, at::kDouble);
    before_cap(probabilities, logits, cap);
    gradient += times_rows(probabilities, rows);
  });
  // If rounding makes the total probability less than 1, the last token is drawn.
  labels = labels.clamp_max(head.size(0) - 1);
  return gradient.sub_(label_rows(head, normed, labels, cap));
}

}  // namespace

at::Tensor token_uniforms(int64_t first_token, int64_t count) {
  constexpr uint64_t kSeed = 0;
  at::Tensor uniforms = at::empty({count}, at::kDouble);
  auto* values = uniforms.mutable_data_ptr<double>();
  for (int64_t i = 0; i < count; ++i) {
    at::Philox4_32 generator(kSeed, static_cast<uint64_t>(first_token + i));
    const uint64_t high = generator();
    const uint64_t bits = (high << 32 | generator()) >> 11;
    values[i] = std::ldexp(static_cast<double>(bits), -53);
  }
  return uniforms;
}

at::Tensor loss_gradient(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x,
                         const at::Tensor& uniforms) {
  const at::Tensor tokens = x.reshape({-1, x.size(-1)});
  const auto norm = [&](const at::Tensor& input) { return final_norm(config, head, input); };
  const at::Tensor of_normed = normed_gradient(
      head.weight, norm(tokens).to(head.weight.scalar_type()), uniforms, config.logit_cap);
  return gradient_through(norm, tokens, of_normed).view(x.sizes());
}

LastGradient label_gradient(const ModelConfig& config, const HeadWeights& head,
                            const std::vector<int64_t>& numbers) {
  return [&](const at::Tensor& x, int64_t first_window) {
    const int64_t seqlen = x.size(1);
    std::vector<at::Tensor> uniforms;
    for (int64_t i = first_window; i < first_window + x.size(0); ++i) {
      const int64_t number = numbers.empty() ? i : numbers.at(static_cast<size_t>(i));
      uniforms.push_back(token_uniforms(number * seqlen, seqlen));
    }
    return loss_gradient(config, head, x, at::cat(uniforms));
  };
}

at::Tensor distillation_gradient(const ModelConfig& config, const HeadWeights& head,
                                 const at::Tensor& x, const TargetPredictions& target) {
  const at::Tensor tokens = x.reshape({-1, x.size(-1)});
  const at::ScalarType dtype = head.weight.scalar_type();
  const at::Tensor states = final_state(config, head, tokens, dtype);
  const auto before_head = [&](const at::Tensor& input) {
    return final_state(config, head, input, at::kFloat);
  };
  const at::Tensor of_states = states_gradient(head.weight, states, target, config.logit_cap);
  return gradient_through(before_head, tokens, of_states).view(x.sizes());
}

}  // namespace dotresize
