#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace dotresize {

/// Σ NLL and the number of predicted tokens.
struct NegativeLogLikelihood {
  double nll = 0.0;
  int64_t tokens = 0;

  /// exp(nll / tokens).
  double perplexity() const;
};

/// Rounds to four significant digits, so that rounding differences between numbers of threads do
/// not affect decisions. Returns 0 if the value is not positive.
double rounded_nats(double value);

/// Distance of a model's predictions from those of a reference with the same vocabulary.
struct Divergence {
  double kl = 0.0;       ///< Σ KL(reference ‖ model) over the predicted tokens, in nats
  int64_t agreeing = 0;  ///< predicted tokens for which both have the same most likely token
  int64_t tokens = 0;    ///< predicted tokens

  double mean_kl() const { return kl / static_cast<double>(tokens); }
  /// Fraction of agreeing tokens, in [0, 1].
  double agreement() const { return static_cast<double>(agreeing) / static_cast<double>(tokens); }
};

/// Sums over the predicted tokens of some windows.
struct EvaluationSums {
  NegativeLogLikelihood loss;
  std::optional<Divergence> divergence;  ///< set if there is a reference

  /// Adds the sums over other windows.
  void add(const EvaluationSums& others);
};

/// The head's matrix, read in blocks of rows.
struct Vocabulary {
  int64_t size = 0;
  /// Returns rows [first, first + count) [count, k_2L], in the compute dtype on the device.
  std::function<at::Tensor(int64_t first, int64_t count)> rows;
  std::optional<double> logit_cap = std::nullopt;  ///< ModelConfig::logit_cap
};

/// Makes a vocabulary of a head [vocab, k_2L] that is in memory.
Vocabulary vocabulary_of(const at::Tensor& head, const std::optional<double>& logit_cap);

/// Predictions of the reference: its head, and its final states of the same microbatches.
struct ReferencePredictions {
  Vocabulary vocabulary;
  std::vector<at::Tensor> states;
};

/// Returns the sums of each microbatch from its final states (final_state, [batch · seqlen, k_2L]).
/// ids: [batch, seqlen] int64 within the vocabulary. Each window predicts its last seqlen−1 tokens.
/// Each block of the vocabulary is read once for all microbatches, so the logits of a whole
/// microbatch never exist at once. Logits are float32; the sums of exponentials and of the result
/// are float64. `reference`: may be null. Throws NonFiniteError if a result is not finite.
std::vector<EvaluationSums> vocabulary_sums(const Vocabulary& vocabulary,
                                            const std::vector<at::Tensor>& states,
                                            const std::vector<at::Tensor>& ids,
                                            const ReferencePredictions* reference);

/// Compares two models' predictions of the same tokens, from blocks of the vocabulary's logits:
/// computes KL(P ‖ Q), with P the reference's distribution and Q the model's, and whether both have
/// the same most likely token.
class RunningDivergence {
 public:
  RunningDivergence(int64_t tokens, at::Device device);

  /// Adds logits [tokens, count] float32 of the same rows of both heads, starting at row `first`.
  /// Exponentials and sums are float64.
  void add(const at::Tensor& reference, const at::Tensor& model, int64_t first);

  /// KL of each token in nats, [tokens] float64. Not finite if a logit was not. Equal logits give
  /// 0. Rounding may give values down to -1e-12.
  at::Tensor kl() const;
  /// Agreement of the most likely tokens, [tokens] bool.
  at::Tensor agrees() const;

 private:
  /// State of one model; tensors are [tokens, 1].
  struct Side {
    at::Tensor largest;    ///< largest logit so far, float64
    at::Tensor likeliest;  ///< token of the largest logit, int64
    at::Tensor sum;        ///< Σ exp(logit − largest), float64

    /// Updates `largest` and `likeliest` from a block, and rescales `sum`. Returns the scale
    /// factor.
    at::Tensor advance(const at::Tensor& logits, int64_t first);
  };

  Side p_;
  Side q_;
  at::Tensor weighted_;  ///< Σ exp(p − p_.largest)·(p − q), [tokens, 1] float64
};

}  // namespace dotresize
