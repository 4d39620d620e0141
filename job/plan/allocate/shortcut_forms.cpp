#include "job/plan/allocate/shortcut_forms.h"

#include <algorithm>
#include <optional>

namespace dotresize {

std::string to_string(const Shortcuts& shortcuts) { return shortcuts.rank ? "auto" : "exact"; }

ShortcutForm shortcut_form(const Shortcuts& shortcuts, int64_t k_in, int64_t k_out,
                           int64_t hidden_size, bool oblique) {
  const int64_t factors = oblique ? 2 : 1;
  std::optional<int64_t> most = shortcuts.rank;
  if (most && oblique) *most += std::max<int64_t>(0, k_in - k_out);
  return smallest_shortcut(k_in, k_out, hidden_size, factors, most);
}

std::vector<int64_t> possible_shortcut_ranks(int64_t hidden_size) {
  const int64_t step = (hidden_size + 255) / 256;
  std::vector<int64_t> ranks;
  for (int64_t rank = hidden_size / 3 / step * step; rank >= 0; rank -= step) ranks.push_back(rank);
  return ranks;
}

std::vector<ShortcutForm> shortcut_forms(const Shortcuts& shortcuts,
                                         std::span<const int64_t> widths, int64_t hidden_size,
                                         bool oblique) {
  std::vector<ShortcutForm> forms;
  bool low_rank = false;
  for (std::size_t in = 0; in + 1 < widths.size(); ++in) {
    const Shortcuts own =
        shortcuts.ranks.empty() ? shortcuts : Shortcuts{.rank = shortcuts.ranks.at(in)};
    forms.push_back(shortcut_form(own, widths[in], widths[in + 1], hidden_size, oblique));
    low_rank = low_rank || !forms.back().dense();
  }
  if (!oblique && !low_rank) forms.clear();
  return forms;
}

}  // namespace dotresize
