#include "job/report/phase_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text/human_text.h"

namespace dotresize {
namespace {

struct PhaseRow {
  std::string name;
  double mean_s = 0.0;
  double longest_s = 0.0;
  int slowest_rank = 0;
};

std::vector<PhaseRow> phases_of(const std::vector<RankReport>& ranks) {
  std::map<std::string, PhaseRow> phases;
  for (const RankReport& rank : ranks) {
    for (const auto& [name, seconds] : rank.seconds) {
      PhaseRow& phase = phases[name];
      phase.name = name;
      phase.mean_s += seconds / static_cast<double>(ranks.size());
      if (seconds <= phase.longest_s) continue;
      phase.longest_s = seconds;
      phase.slowest_rank = rank.rank;
    }
  }
  std::vector<PhaseRow> sorted;
  sorted.reserve(phases.size());
  for (const auto& entry : phases) sorted.push_back(entry.second);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const PhaseRow& a, const PhaseRow& b) { return a.mean_s > b.mean_s; });
  return sorted;
}

const RankReport& most_memory(const std::vector<RankReport>& ranks) {
  return *std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.peak_memory_bytes < b.peak_memory_bytes;
  });
}

/// "l1 cost 81.2 G pairs/s a rank", on GPUs followed by ", 65.1 % of the limit"; empty if no rank
/// has computed costs.
std::string cost_line(const std::vector<RankReport>& ranks) {
  CostReport all;
  double pairs_at_most = 0.0;
  for (const RankReport& rank : ranks) {
    if (!rank.cost) continue;
    all.pairs += rank.cost->pairs;
    all.seconds += rank.cost->seconds;
    pairs_at_most += rank.cost->limit_pairs_per_s.value_or(0.0) * rank.cost->seconds;
  }
  if (all.pairs == 0.0) return "";
  const std::string share = pairs_at_most > 0.0 ? fmt::format(", {:.1f} % of the limit",
                                                              100.0 * all.pairs / pairs_at_most)
                                                : "";
  return fmt::format("l1 cost {:.1f} G pairs/s a rank{}\n", 1e-9 * all.pairs_per_s(), share);
}

/// "peak device memory 3.00 GiB, of it 2.51 GiB in use at once (rank 1)"; empty if no rank has a
/// GPU.
std::string device_memory_line(const std::vector<RankReport>& ranks) {
  const auto largest =
      std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
        return a.peak_device_memory_bytes < b.peak_device_memory_bytes;
      });
  if (!largest->peak_device_memory_bytes) return "";
  const std::optional<int64_t>& used = largest->peak_device_allocated_bytes;
  return fmt::format(
      "peak device memory {}{} (rank {})\n", human_bytes(*largest->peak_device_memory_bytes),
      used ? fmt::format(", of it {} in use at once", human_bytes(*used)) : "", largest->rank);
}

}  // namespace

std::string phase_table(const Report& report) {
  if (report.ranks.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{"phase", "mean s", "share", "longest s", "rank"}};
  for (const PhaseRow& phase : phases_of(report.ranks)) {
    rows.push_back({phase.name, fmt::format("{:.2f}", phase.mean_s),
                    fmt::format("{:.1f} %", 100.0 * phase.mean_s / report.wall_time_s),
                    fmt::format("{:.2f}", phase.longest_s), std::to_string(phase.slowest_rank)});
  }
  using enum Align;
  std::string table = format_table(rows, {kLeft, kRight, kRight, kRight, kRight});
  const RankReport& largest = most_memory(report.ranks);
  table +=
      fmt::format("peak memory {} (rank {})", human_bytes(largest.peak_memory_bytes), largest.rank);
  if (report.calibration_s > 0 && !report.job.statistics.used()) {
    table += fmt::format(", calibration {} tokens/s",
                         with_separators(static_cast<int64_t>(report.tokens_per_second())));
  }
  return table + "\n" + device_memory_line(report.ranks) + cost_line(report.ranks);
}

}  // namespace dotresize
