#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// What one format of engines makes of the dense model and of the job's output, ends included.
struct ServedSize {
  std::string format;
  int64_t dense_bytes = 0;
  int64_t compressed_bytes = 0;
  std::vector<int64_t> unfit_rows;  ///< FormatSize::unfit_rows of the output
};

struct ServedSizes {
  std::vector<ServedSize> formats;
  /// The features of each MLP or expert with which they alone meet the size, if the loss decides
  /// the widths and nobody knows them yet: the sizes are those of that output.
  int64_t assumed_features = 0;
};

/// Of a stock output; of others none: engines do not load them. Also none if features alone cannot
/// meet the size.
ServedSizes served_sizes(const ModelConfig& config, const ResolvedJob& job);

/// The sizes as a table with a heading, and a line that starts with "warning:" for each format that
/// stores rows of the output in a larger type. Empty if there are none; else it ends with a
/// newline.
std::string served_sizes_table(const ServedSizes& sizes);

}  // namespace dotresize
