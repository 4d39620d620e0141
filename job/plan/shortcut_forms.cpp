#include "job/plan/shortcut_forms.h"

#include <optional>

namespace dotresize {

std::vector<ShortcutForm> shortcut_forms(const Shortcuts& shortcuts,
                                         std::span<const int64_t> widths,
                                         std::span<const int64_t> groups, int64_t hidden_size,
                                         bool oblique) {
  const int64_t factors = oblique ? 2 : 1;
  const bool dense = shortcuts.kind == Shortcuts::Kind::kDense;
  if (dense && !oblique) return {};
  std::optional<int64_t> most;
  if (shortcuts.kind == Shortcuts::Kind::kRank) most = shortcuts.rank;
  std::vector<ShortcutForm> forms;
  bool any_rank = false;
  for (std::size_t in = 0; in + 1 < widths.size(); ++in) {
    if (!groups.empty() && groups[in] == groups[in + 1]) {
      forms.push_back(kIdentityShortcut);
      continue;
    }
    forms.push_back(
        dense ? ShortcutForm{.factors = factors}
              : smallest_shortcut(widths[in], widths[in + 1], hidden_size, factors, most));
    any_rank = any_rank || !forms.back().dense();
  }
  return any_rank || oblique ? forms : std::vector<ShortcutForm>{};
}

}  // namespace dotresize
