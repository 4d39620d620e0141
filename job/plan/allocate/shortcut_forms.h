#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

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
