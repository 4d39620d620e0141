#pragma once

#include <cstdint>
#include <string>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// The model that the job makes of `source` with these widths: compressed, or with `map_sharing:
/// model` a dense one that is as wide as its map. A source with MLPs of sizes by layer, those that
/// the loss has decided, keeps them; else they are as wide as the job says. Without maps it is the
/// source with what is cut inside its sublayers. Embeddings that are tied in the source stay tied,
/// unless two tables are smaller than one with its projections (with_smaller_ends).
ModelConfig output_model_config(const ModelConfig& source, const ResolvedJob& job,
                                const JunctionWidths& widths);

/// Size of the model before and after, as stored.
struct NetSize {
  int64_t dense_parameters = 0;
  int64_t dense_bytes = 0;
  int64_t compressed_parameters = 0;
  int64_t compressed_bytes = 0;

  /// Compressed over dense.
  double parameters_fraction() const {
    return static_cast<double>(compressed_parameters) / static_cast<double>(dense_parameters);
  }
  double bytes_fraction() const {
    return static_cast<double>(compressed_bytes) / static_cast<double>(dense_bytes);
  }
  bool is_smaller() const { return compressed_bytes < dense_bytes; }
};

/// Of the job's output with these widths.
NetSize net_size(const ModelConfig& config, const ResolvedJob& job, const JunctionWidths& widths);

/// The most bytes that are at most the fraction `size` of the dense ones.
int64_t largest_bytes(double size, int64_t dense_bytes);

/// What to tell the user if the result has no fewer bytes than the dense model: the numbers,
/// why, and what to do; else empty.
std::string size_warning(const NetSize& size, const ResolvedJob& job);

}  // namespace dotresize
