#include "job/plan/allocate/shortcut_forms.h"

namespace dotresize {

ShortcutForm shortcut_form(int64_t k_in, int64_t k_out, int64_t hidden_size, bool oblique) {
  return smallest_shortcut(k_in, k_out, hidden_size, /*factors=*/oblique ? 2 : 1);
}

std::vector<ShortcutForm> shortcut_forms(std::span<const int64_t> widths, int64_t hidden_size,
                                         bool oblique) {
  std::vector<ShortcutForm> forms;
  bool low_rank = false;
  for (std::size_t in = 0; in + 1 < widths.size(); ++in) {
    forms.push_back(shortcut_form(widths[in], widths[in + 1], hidden_size, oblique));
    low_rank = low_rank || !forms.back().dense();
  }
  if (!oblique && !low_rank) forms.clear();
  return forms;
}

}  // namespace dotresize
