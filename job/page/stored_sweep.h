#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dotresize {

/// One job of a sweep, or a combination that makes no job.
struct StoredVariant {
  std::vector<std::string> values;  ///< one for each axis; empty: not read by the method
  std::string state;                ///< "done", "failed", "refused", "pending"
  std::string reason;
  // Set only if it is done:
  int64_t width = 0;
  int64_t bytes = 0;
  double bytes_fraction = 0.0;
  double perplexity = 0.0;
  std::optional<double> kl = {};         ///< in nats per token, if it was asked for
  std::optional<double> agreement = {};  ///< fraction, if it was asked for
  bool pareto = false;
  bool best = false;

  bool done() const { return state == "done"; }
};

/// results.json of a sweep's directory.
struct StoredSweep {
  std::string name;
  std::string directory;
  int64_t combinations = 0;
  std::vector<std::string> axes;  ///< keys of the axes
  std::optional<int64_t> dense_bytes;
  std::optional<double> dense_perplexity;
  std::vector<StoredVariant> variants;
};

inline constexpr int64_t kMaxSweepBytes = int64_t{64} << 20;

/// Parses results.json. Throws InputError, starting with `origin`, for a malformed file.
StoredSweep parse_results(const std::string& text, const std::string& origin);

/// Returns true if the key of an axis sets the size of the output.
bool is_size_key(const std::string& key);

}  // namespace dotresize
