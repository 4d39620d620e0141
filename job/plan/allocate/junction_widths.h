#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

/// Number of junctions that get a map in a narrower model: junctions 0 .. mapped_junctions()-1. A
/// dense head leaves the last one out.
int64_t mapped_junctions(const ModelConfig& config, bool head_sliced);

/// Width k of every junction. A value type.
struct JunctionWidths {
  std::vector<int64_t> all;  ///< widths of junctions 0 .. 2L; those without a map keep hidden_size
  /// mapped_junctions(), or 0 if no junction is narrower than the source: then no junction has a
  /// map.
  int64_t mapped_count = 0;

  std::span<const int64_t> mapped() const;
  // Smallest and largest width of the mapped junctions, or of all if none is mapped.
  int64_t smallest() const;
  int64_t largest() const;
  /// 1 - (mean width of the mapped junctions) / hidden_size.
  double nominal_sparsity(int64_t hidden_size) const;
};

/// Gives all mapped junctions the width k. They have maps even if k is hidden_size, because k may
/// be a bound for widths that are not known yet.
JunctionWidths uniform_widths(const ModelConfig& config, bool head_sliced, int64_t k);

/// Returns the widths in final form: without maps if none of them is below hidden_size.
JunctionWidths decided(JunctionWidths widths, int64_t hidden_size);

/// Returns floor((1-s)*n/r + 1e-9)*r, with s = sparsity, n = `full`, the width of a junction or the
/// features of an MLP, and r = round_to. 0: no width is left.
int64_t width_from_sparsity(double sparsity, int64_t full, int64_t round_to);

// Storage of an output's skip paths (docs/method.md, "Shortcuts"): the form with fewest bytes that
// computes the same.

/// Form of a shortcut between maps of these widths. `oblique`: ResolvedJob::oblique_maps().
ShortcutForm shortcut_form(int64_t k_in, int64_t k_out, int64_t hidden_size, bool oblique);

/// Form of each sublayer's shortcut in a model with junction widths `widths`, made from a model of
/// width `hidden_size`, if each junction has a map of its own. Empty, as in ModelConfig, if maps
/// are not oblique and no shortcut has a rank.
std::vector<ShortcutForm> shortcut_forms(std::span<const int64_t> widths, int64_t hidden_size,
                                         bool oblique);

}  // namespace dotresize
