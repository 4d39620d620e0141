#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

/// Junctions 0 .. mapped_junctions()-1 get a map; a dense head leaves the last one out.
int64_t mapped_junctions(const ModelConfig& config, bool head_sliced);

/// The width k of every junction. A value: it is chosen once and handed to who needs it.
struct JunctionWidths {
  std::vector<int64_t> all;  ///< of junctions 0 .. 2L; those without a map keep hidden_size
  int64_t mapped_count = 0;  ///< as mapped_junctions()
  /// The least fraction of a junction's energy that its width holds; absent unless energy decided.
  std::optional<double> held = {};

  std::span<const int64_t> mapped() const;
  /// Of the mapped junctions.
  int64_t largest() const;
  /// 1 - (mean width of the mapped junctions) / hidden_size.
  double nominal_sparsity(int64_t hidden_size) const;
};

/// The same k for all mapped junctions.
JunctionWidths uniform_widths(const ModelConfig& config, bool head_sliced, int64_t k);

}  // namespace dotresize
