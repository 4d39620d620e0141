#pragma once

#include <cstdint>
#include <string>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Config of the model that the job makes of `source` with these widths. It is compressed, or with
/// `output.format: stock` a stock model as wide as its map. Without maps it is the source with its
/// sublayers cut. MLP sizes by layer in `source` are kept: the loss has decided them. Otherwise the
/// job gives the MLP widths. Tied embeddings stay tied, unless two tables are smaller than one with
/// its projections (with_smaller_ends).
ModelConfig output_model_config(const ModelConfig& source, const ResolvedJob& job,
                                const JunctionWidths& widths);

/// Stored size of the model before and after compression.
struct NetSize {
  int64_t dense_parameters = 0;
  int64_t dense_bytes = 0;
  int64_t compressed_parameters = 0;
  int64_t compressed_bytes = 0;

  /// Ratio of the compressed to the dense size.
  double parameters_fraction() const {
    return static_cast<double>(compressed_parameters) / static_cast<double>(dense_parameters);
  }
  double bytes_fraction() const {
    return static_cast<double>(compressed_bytes) / static_cast<double>(dense_bytes);
  }
  bool is_smaller() const { return compressed_bytes < dense_bytes; }
};

/// Returns the net size of the job's output with these widths.
NetSize net_size(const ModelConfig& config, const ResolvedJob& job, const JunctionWidths& widths);

/// Largest number of bytes within the fraction `size` of `dense_bytes`.
int64_t largest_bytes(double size, int64_t dense_bytes);

/// Returns a warning if the result is not smaller in bytes than the dense model: the numbers and
/// the remedies. Else empty.
std::string size_warning(const NetSize& size, const ResolvedJob& job);

}  // namespace dotresize
