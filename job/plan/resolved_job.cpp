#include "job/plan/resolved_job.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace dotresize {

std::string to_string(Schedule schedule) {
  switch (schedule) {
    case Schedule::kPipeline:
      return "pipeline";
    case Schedule::kTokenParallel:
      return "token_parallel";
  }
  throw std::invalid_argument("no such Schedule");
}

std::span<const int64_t> ResolvedJob::compressed_widths() const {
  return std::span(junction_widths).first(junction_widths.size() - (head_sliced ? 0 : 1));
}

void ResolvedJob::set_width(int64_t k) {
  width = k;
  std::fill_n(junction_widths.begin(), compressed_widths().size(), k);
}

double ResolvedJob::nominal_sparsity() const {
  const std::span<const int64_t> widths = compressed_widths();
  const int64_t sum = std::accumulate(widths.begin(), widths.end(), int64_t{0});
  const auto count = static_cast<double>(widths.size());
  return 1.0 - static_cast<double>(sum) / count / static_cast<double>(hidden_size);
}

}  // namespace dotresize
