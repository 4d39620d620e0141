#include "job/target_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace dotresize {

std::string target_text(const ResolvedJob& job) {
  if (job.sparsity) return fmt::format("sparsity {}", *job.sparsity);
  if (job.size) return fmt::format("size {}", *job.size);
  if (!job.energy) return fmt::format("width {}", job.width);
  return "widths from energy" +
         (job.energy->keep ? fmt::format(", keep {}", *job.energy->keep) : "") +
         (job.energy->size ? fmt::format(", size {}", *job.energy->size) : "");
}

std::string widths_text(const ResolvedJob& job) {
  if (!job.energy) return fmt::format("width {} of {}", job.width, job.hidden_size);
  if (!job.widths_known()) return fmt::format("widths up to {}", job.hidden_size);
  const auto end = job.junction_widths.end() - (job.head_sliced ? 0 : 1);
  const auto [least, most] = std::minmax_element(job.junction_widths.begin(), end);
  return fmt::format("widths {} to {} of {}", *least, *most, job.hidden_size);
}

}  // namespace dotresize
