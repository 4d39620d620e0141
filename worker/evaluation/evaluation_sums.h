#pragma once

#include <cstdint>
#include <optional>

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
  double rounded_mean_kl() const { return rounded_nats(mean_kl()); }
  /// Fraction of agreeing tokens, in [0, 1].
  double agreement() const { return static_cast<double>(agreeing) / static_cast<double>(tokens); }
};

/// Sums over the predicted tokens of some windows.
struct EvaluationSums {
  NegativeLogLikelihood loss;
  std::optional<Divergence> divergence;  ///< set if there is a reference
};

}  // namespace dotresize
