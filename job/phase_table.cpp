#include "job/phase_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "job/human_numbers.h"
#include "job/text_table.h"

namespace dotresize {
namespace {

struct Phase {
  std::string name;
  double mean_s = 0.0;
  double longest_s = 0.0;
  int slowest_rank = 0;
};

std::vector<Phase> phases_of(const std::vector<RankReport>& ranks) {
  std::map<std::string, Phase> phases;
  for (const RankReport& rank : ranks) {
    for (const auto& [name, seconds] : rank.seconds) {
      Phase& phase = phases[name];
      phase.name = name;
      phase.mean_s += seconds / static_cast<double>(ranks.size());
      if (seconds <= phase.longest_s) continue;
      phase.longest_s = seconds;
      phase.slowest_rank = rank.rank;
    }
  }
  std::vector<Phase> sorted;
  for (const auto& entry : phases) sorted.push_back(entry.second);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Phase& a, const Phase& b) { return a.mean_s > b.mean_s; });
  return sorted;
}

const RankReport& most_memory(const std::vector<RankReport>& ranks) {
  return *std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.peak_memory_bytes < b.peak_memory_bytes;
  });
}

}  // namespace

std::string phase_table(const Report& report) {
  if (report.ranks.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{"phase", "mean s", "share", "longest s", "rank"}};
  for (const Phase& phase : phases_of(report.ranks)) {
    rows.push_back({phase.name, fmt::format("{:.2f}", phase.mean_s),
                    fmt::format("{:.1f} %", 100.0 * phase.mean_s / report.wall_time_s),
                    fmt::format("{:.2f}", phase.longest_s), std::to_string(phase.slowest_rank)});
  }
  using enum Align;
  std::string table = format_table(rows, {kLeft, kRight, kRight, kRight, kRight});
  const RankReport& largest = most_memory(report.ranks);
  table +=
      fmt::format("peak memory {} (rank {})", human_bytes(largest.peak_memory_bytes), largest.rank);
  if (report.calibration_s > 0) {
    table += fmt::format(", calibration {} tokens/s",
                         with_separators(static_cast<int64_t>(report.tokens_per_second())));
  }
  return table + "\n";
}

}  // namespace dotresize
