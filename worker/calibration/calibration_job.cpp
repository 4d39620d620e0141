#include "worker/calibration/calibration_job.h"

#include <algorithm>

namespace dotresize {

int64_t first_with_same_map(const std::vector<int64_t>& sharing, int64_t junction) {
  if (sharing.empty()) return junction;
  const int64_t map = sharing.at(static_cast<size_t>(junction));
  return std::ranges::lower_bound(sharing, map) - sharing.begin();
}

std::vector<ShortcutForm> CalibrationJob::shortcut_forms() const {
  std::vector<ShortcutForm> forms =
      dotresize::shortcut_forms(shortcuts, widths.all, sharing, config.hidden_size, map.oblique());
  for (int64_t s = std::ssize(forms); s < config.num_sublayers(); ++s) {
    forms.push_back(shares_map(s) ? kIdentityShortcut : ShortcutForm{});
  }
  return forms;
}

JunctionMap CalibrationJob::load_map(int64_t junction) const {
  const JunctionMap kept = journal.map(map_of(junction)).to(fold_dtype);
  const at::Tensor M = to_device(kept.M, device);
  return kept.oblique ? JunctionMap(M, to_device(kept.M_inv, device)) : JunctionMap(M);
}

}  // namespace dotresize
