#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace dotresize {

/// Picture of a transport plan T [d, k] of mass 1: a few cells, and some summary numbers
/// (docs/method.md, "The picture of a plan"). Rows are blocks of the d channels: first the support
/// in its order, in as many rows as there are columns, then the other channels. Columns are blocks
/// of the support.
struct TransportPicture {
  static constexpr int64_t kMaxRows = 64;

  int64_t block = 1;     ///< channels per row or column; the last block of each part may have fewer
  int64_t rows = 0;      ///< from `columns` to kMaxRows
  int64_t columns = 0;   ///< at least 1
  double largest = 0.0;  ///< the largest mass of a cell
  std::vector<uint8_t> levels = {};  ///< [rows, columns], results of level_of_mass()
  double stays = 0.0;                ///< fraction of the support's mass on the diagonal
  double kept_targets = 0.0;         ///< exp(entropy) of a channel's mass, mean over the support
  std::optional<double> merged_targets = {};  ///< same, over the other channels; absent: no others

  bool operator==(const TransportPicture&) const = default;
};

/// Levels per factor of ten. The range is nearly eight factors of ten.
inline constexpr double kLevelsPerDecade = 32.0;

/// Returns 255 for the largest mass, 0 for a mass below the range. The mass of a level follows to a
/// relative error of 3.7 % (job/page/plans.js).
inline uint8_t level_of_mass(double mass, double largest) {
  const double level = 255.0 + kLevelsPerDecade * std::log10(mass / largest);
  if (!(level >= 1.0)) return 0;
  return static_cast<uint8_t>(std::min(255.0, std::round(level)));
}

}  // namespace dotresize
