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

/// The value to four significant digits: what processes with other numbers of threads round
/// differently decides nothing. 0 if it is not positive.
double rounded_nats(double value);

/// How far a model's predictions are from those of a reference with the same vocabulary.
struct Divergence {
  double kl = 0.0;       ///< Σ KL(reference ‖ model) over the predicted tokens, in nats
  int64_t agreeing = 0;  ///< predicted tokens of which both hold the same one for the most likely
  int64_t tokens = 0;    ///< predicted tokens

  double mean_kl() const { return kl / static_cast<double>(tokens); }
  double rounded_mean_kl() const { return rounded_nats(mean_kl()); }
  /// In [0, 1].
  double agreement() const { return static_cast<double>(agreeing) / static_cast<double>(tokens); }
};

/// Over the predicted tokens of some windows.
struct EvaluationSums {
  NegativeLogLikelihood loss;
  std::optional<Divergence> divergence;  ///< if there is a reference
};

}  // namespace dotresize
