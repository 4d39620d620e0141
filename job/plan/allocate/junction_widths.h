#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

/// Junctions 0 .. mapped_junctions()-1 of a narrower model get a map; a dense head leaves the last
/// one out.
int64_t mapped_junctions(const ModelConfig& config, bool head_sliced);

/// The width k of every junction. A value: it is chosen once and handed to who needs it.
struct JunctionWidths {
  std::vector<int64_t> all;  ///< of junctions 0 .. 2L; those without a map keep hidden_size
  /// As mapped_junctions(); 0 if no junction is narrower than the source: then none has a map.
  int64_t mapped_count = 0;

  std::span<const int64_t> mapped() const;
  // Of the mapped junctions, or of all if none is.
  int64_t smallest() const;
  int64_t largest() const;
  /// 1 - (mean width of the mapped junctions) / hidden_size.
  double nominal_sparsity(int64_t hidden_size) const;
};

/// The same k for all mapped junctions; they have maps also if k is hidden_size, for it may be a
/// bound of widths that are not known yet.
JunctionWidths uniform_widths(const ModelConfig& config, bool head_sliced, int64_t k);

/// Widths that are known: without maps if none of them is below hidden_size.
JunctionWidths decided(JunctionWidths widths, int64_t hidden_size);

}  // namespace dotresize
