#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/page/page.h"

namespace dotresize {

/// One job of a sweep, or a combination that makes none.
struct StoredVariant {
  std::vector<std::string> values;  ///< of the axes; empty: of no use
  std::string state;                ///< "done", "failed", "refused", "pending"
  std::string reason;
  // If it is done:
  int64_t width = 0;
  int64_t bytes = 0;
  double bytes_fraction = 0.0;
  double perplexity = 0.0;
  std::optional<double> kl = {};         ///< nats a token, if it was asked for
  std::optional<double> agreement = {};  ///< likewise, a fraction
  bool pareto = false;
  bool best = false;

  bool done() const { return state == "done"; }
};

/// results.json of a sweep's directory.
struct StoredSweep {
  std::string name;
  std::string directory;
  int64_t combinations = 0;
  std::vector<std::string> axes;  ///< keys
  std::optional<int64_t> dense_bytes;
  std::optional<double> dense_perplexity;
  std::vector<StoredVariant> variants;
};

inline constexpr int64_t kMaxSweepBytes = int64_t{64} << 20;

/// Throws InputError, starting with `origin`, for a malformed file.
StoredSweep parse_results(const std::string& text, const std::string& origin);

/// Whether the key of an axis says how small the output becomes.
bool is_size_key(const std::string& key);

/// What was tried and what came out.
Page sweep_page(const StoredSweep& sweep);

}  // namespace dotresize
