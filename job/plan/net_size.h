#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

/// Stored size of the model before and after compression. Tensors of the source's files that the
/// model does not use are not counted.
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
};

/// Returns the net size of an output (output_model_config).
NetSize net_size(const ModelConfig& source, const ModelConfig& output);

/// Text of a fraction of bytes, rounded up: as `method.size` it is large enough.
std::string size_text(double fraction);

/// Largest number of bytes within the fraction `size` of `dense_bytes`.
int64_t largest_bytes(double size, int64_t dense_bytes);

/// Returns the largest multiple of `round_to`, up to hidden_size, whose net bytes are at most the
/// fraction `size` of the dense model's. `job` gives everything else that affects the size: map
/// sharing, head, dtypes. Throws InputError naming method.size, with the smallest size that is
/// available.
int64_t width_from_size(double size, int64_t round_to, const ModelConfig& config,
                        const ResolvedJob& job);

/// Returns a warning if the result is not smaller in bytes than the dense model: the numbers and
/// the remedies. Else empty. `dense`, `compressed`: stored_dtypes() of both models.
std::string size_warning(const NetSize& size, const ResolvedJob& job, const StoredDtypes& dense,
                         const StoredDtypes& compressed);

}  // namespace dotresize
