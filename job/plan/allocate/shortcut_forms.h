#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/model/shortcut_form.h"

namespace dotresize {

/// How the skip paths of an output are stored (docs/method.md, "Shortcuts"): in the form with
/// fewest bytes that computes the same, or of ranks that an allocation chooses (`method.allocate`).
struct Shortcuts {
  /// At most, of those whose rank is not chosen yet; absent: as many as it takes.
  std::optional<int64_t> rank = {};
  std::vector<int64_t> ranks = {};  ///< at most, of each sublayer, once they are chosen
};

/// "exact", or "auto" if an allocation chooses the ranks.
std::string to_string(const Shortcuts& shortcuts);

/// Of a sublayer between maps of these widths, `shortcuts` being no ranks that were chosen. Between
/// oblique maps a rank is larger by as many channels as the second one is narrower: so many of its
/// channels may be among the last ones of the first, which the identity does not pass on.
ShortcutForm shortcut_form(const Shortcuts& shortcuts, int64_t k_in, int64_t k_out,
                           int64_t hidden_size, bool oblique);

/// Ranks that an allocation chooses among, in its order: multiples of hidden_size / 256, from
/// hidden_size / 3 down to 0. Beyond that one matrix has fewer parameters, or the rank is exact.
std::vector<int64_t> possible_shortcut_ranks(int64_t hidden_size);

/// Of each sublayer of a model of junction_widths `widths` that was made of one of width
/// `hidden_size`. `groups`: ModelConfig::junction_groups. `oblique`: ResolvedJob::oblique_maps().
/// Empty if maps are not oblique and none has a rank but those within groups: as in ModelConfig.
std::vector<ShortcutForm> shortcut_forms(const Shortcuts& shortcuts,
                                         std::span<const int64_t> widths,
                                         std::span<const int64_t> groups, int64_t hidden_size,
                                         bool oblique);

/// Whether one between groups has a rank, so that the maps at its ends are rotated into each other.
bool has_low_rank_shortcut(const Shortcuts& shortcuts, std::span<const int64_t> widths,
                           std::span<const int64_t> groups, int64_t hidden_size, bool oblique);

}  // namespace dotresize
