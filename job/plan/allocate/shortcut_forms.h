#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

/// Storage of an output's skip paths (docs/method.md, "Shortcuts"): the form with fewest bytes that
/// computes the same, or ranks that an allocation chooses (`method.allocate`).
struct Shortcuts {
  /// Largest rank of shortcuts whose rank is not chosen yet; absent: the rank that is exact.
  std::optional<int64_t> rank = {};
  std::vector<int64_t> ranks = {};  ///< largest rank of each sublayer's shortcut, once chosen
};

/// "exact", or "auto" if an allocation chooses the ranks.
std::string to_string(const Shortcuts& shortcuts);

/// Form of a shortcut between maps of these widths. Reads shortcuts.rank and not shortcuts.ranks.
/// Between oblique maps the rank may be larger by the number of channels by which the second map is
/// narrower: that many of its channels may be among the last ones of the first map, which the
/// identity does not pass on.
ShortcutForm shortcut_form(const Shortcuts& shortcuts, int64_t k_in, int64_t k_out,
                           int64_t hidden_size, bool oblique);

/// Ranks that an allocation chooses from, in its order: multiples of hidden_size / 256, rounded up,
/// from hidden_size / 3 down to 0. At a larger rank one matrix has fewer parameters, or the rank is
/// exact.
std::vector<int64_t> possible_shortcut_ranks(int64_t hidden_size);

/// Form of each sublayer's shortcut in a model with junction widths `widths`, made from a model of
/// width `hidden_size`, if each junction has a map of its own. `oblique`:
/// ResolvedJob::oblique_maps(). Empty, as in ModelConfig, if maps are not oblique and no shortcut
/// has a rank.
std::vector<ShortcutForm> shortcut_forms(const Shortcuts& shortcuts,
                                         std::span<const int64_t> widths, int64_t hidden_size,
                                         bool oblique);

}  // namespace dotresize
