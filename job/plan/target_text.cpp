#include "job/plan/target_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace dotresize {

std::string target_text(const ResolvedJob& job) {
  if (job.sparsity) return fmt::format("sparsity {}", *job.sparsity);
  if (job.size) return fmt::format("size {}", *job.size);
  if (!job.energy) return fmt::format("width {}", job.widths.largest());
  return "widths from energy" +
         (job.energy->keep ? fmt::format(", keep {}", *job.energy->keep) : "") +
         (job.energy->size ? fmt::format(", size {}", *job.energy->size) : "");
}

std::string width_range(const JunctionWidths& widths) {
  if (!widths.held) return std::to_string(widths.largest());
  return fmt::format("{} to {}", std::ranges::min(widths.mapped()), widths.largest());
}

std::string widths_text(const JunctionWidths& widths, int64_t hidden_size) {
  return fmt::format("{} {} of {}", widths.held ? "widths" : "width", width_range(widths),
                     hidden_size);
}

}  // namespace dotresize
