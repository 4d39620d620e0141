#include "job/plan/target_text.h"

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

std::string width_range(const ResolvedJob& job) {
  if (!job.energy) return std::to_string(job.width);
  const auto [least, most] = std::ranges::minmax(job.compressed_widths());
  return fmt::format("{} to {}", least, most);
}

std::string widths_text(const ResolvedJob& job) {
  if (!job.widths_known()) return fmt::format("widths up to {}", job.hidden_size);
  return fmt::format("{} {} of {}", job.energy ? "widths" : "width", width_range(job),
                     job.hidden_size);
}

}  // namespace dotresize
