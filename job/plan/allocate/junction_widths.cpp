#include "job/plan/allocate/junction_widths.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dotresize {

int64_t mapped_junctions(const ModelConfig& config, bool head_sliced) {
  return config.num_junctions() - (head_sliced ? 0 : 1);
}

std::span<const int64_t> JunctionWidths::mapped() const {
  return std::span(all).first(static_cast<std::size_t>(mapped_count));
}

int64_t JunctionWidths::smallest() const {
  return std::ranges::min(mapped_count == 0 ? std::span<const int64_t>(all) : mapped());
}

int64_t JunctionWidths::largest() const {
  return std::ranges::max(mapped_count == 0 ? std::span<const int64_t>(all) : mapped());
}

double JunctionWidths::nominal_sparsity(int64_t hidden_size) const {
  if (mapped_count == 0) return 0.0;
  const int64_t sum = std::accumulate(mapped().begin(), mapped().end(), int64_t{0});
  return 1.0 - static_cast<double>(sum) / static_cast<double>(mapped_count) /
                   static_cast<double>(hidden_size);
}

JunctionWidths uniform_widths(const ModelConfig& config, bool head_sliced, int64_t k) {
  JunctionWidths widths;
  widths.mapped_count = mapped_junctions(config, head_sliced);
  widths.all.assign(static_cast<std::size_t>(config.num_junctions()), config.hidden_size);
  std::fill_n(widths.all.begin(), widths.mapped_count, k);
  return widths;
}

JunctionWidths decided(JunctionWidths widths, int64_t hidden_size) {
  const bool whole =
      std::ranges::all_of(widths.all, [&](int64_t width) { return width == hidden_size; });
  if (whole) widths.mapped_count = 0;
  return widths;
}

int64_t width_from_sparsity(double sparsity, int64_t full, int64_t round_to) {
  const double multiples =
      (1.0 - sparsity) * static_cast<double>(full) / static_cast<double>(round_to);
  return static_cast<int64_t>(std::floor(multiples + 1e-9)) * round_to;
}

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
