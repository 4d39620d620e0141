#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/plan/resolved_job.h"

namespace dotresize {

/// Sizes of the dense model and of the job's output, ends included, in one format of engines.
struct ServedSize {
  std::string format;
  int64_t dense_bytes = 0;
  int64_t compressed_bytes = 0;
  std::vector<int64_t> unfit_rows;  ///< FormatSize::unfit_rows of the output
};

struct ServedSizes {
  std::vector<ServedSize> formats;
  /// Features of each MLP or expert that meet the size without other cuts. Set while the widths are
  /// still to be decided by the loss: the sizes are those of that output. Else 0.
  int64_t assumed_features = 0;
};

/// Returns the sizes of a stock output. `output`: its config if its sizes are known. Empty for
/// other outputs, which engines do not load, and if cutting features alone cannot meet the size.
ServedSizes served_sizes(const ModelConfig& config, const ResolvedJob& job,
                         const ModelConfig& output);

/// Table of the sizes with a heading, and a line that starts with "warning:" for each format that
/// stores rows of the output in a larger type. Empty if there are no sizes; else it ends with a
/// newline.
std::string served_sizes_table(const ServedSizes& sizes);

}  // namespace dotresize
