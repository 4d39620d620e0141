#pragma once

#include <cstdint>
#include <string>

#include "job/model_config.h"
#include "job/resolved_job.h"

namespace dotresize {

/// Size of the model before and after, as stored.
struct NetSize {
  int64_t dense_parameters = 0;
  int64_t dense_bytes = 0;
  int64_t compressed_parameters = 0;
  int64_t compressed_bytes = 0;

  /// Compressed over dense parameters.
  double ratio() const {
    return static_cast<double>(compressed_parameters) / static_cast<double>(dense_parameters);
  }
};

NetSize net_size(const ModelConfig& config, const ResolvedJob& job);

/// What to tell the user where the result has no fewer parameters than the dense model (the
/// shortcuts cost more than the narrower matrices save); else empty.
std::string size_warning(const NetSize& size, const ResolvedJob& job);

}  // namespace dotresize
