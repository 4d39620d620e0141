#include "job/report/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/text/human_text.h"
#include "base/text/printable.h"

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
  std::ranges::stable_sort(sorted, std::greater(), &PhaseRow::mean_s);
  return sorted;
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
  return fmt::format("l1 cost {:.1f} G pairs/s a rank{}\n", 1e-9 * (all.pairs / all.seconds),
                     share);
}

/// "peak device memory 3.00 GiB, of it 2.51 GiB in use at once (rank 1)"; empty if no rank has a
/// GPU.
std::string device_memory_line(const std::vector<RankReport>& ranks) {
  const auto largest = std::ranges::max_element(ranks, {}, &RankReport::peak_device_memory_bytes);
  if (!largest->peak_device_memory_bytes) return "";
  const std::optional<int64_t>& used = largest->peak_device_allocated_bytes;
  return fmt::format(
      "peak device memory {}{} (rank {})\n", human_bytes(*largest->peak_device_memory_bytes),
      used ? fmt::format(", of it {} in use at once", human_bytes(*used)) : "", largest->rank);
}

}  // namespace

std::vector<std::vector<std::string>> result_rows(const ModelReport& dense,
                                                  const ModelReport& compressed) {
  std::vector<std::vector<std::string>> rows = {{"", "dense", "compressed", "change"}};
  if (dense.perplexity && compressed.perplexity) {
    rows.push_back({"perplexity", format_perplexity(*dense.perplexity),
                    format_perplexity(*compressed.perplexity),
                    format_change(*dense.perplexity, *compressed.perplexity)});
  }
  if (compressed.kl) rows.push_back({"KL", "", format_nats(*compressed.kl), ""});
  if (compressed.agreement) {
    rows.push_back({"agreement", "", format_percent(*compressed.agreement), ""});
  }
  const auto add_size = [&](const char* name, int64_t before, int64_t after,
                            std::string (*format)(int64_t)) {
    rows.push_back({name, format(before), format(after),
                    format_change(static_cast<double>(before), static_cast<double>(after))});
  };
  add_size("parameters", dense.parameters, compressed.parameters, with_separators);
  add_size("bytes", dense.bytes, compressed.bytes, human_bytes);
  return rows;
}

std::string result_table(const ModelReport& dense, const ModelReport& compressed) {
  return format_table(result_rows(dense, compressed),
                      {Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
}

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
  const RankReport& largest =
      *std::ranges::max_element(report.ranks, {}, &RankReport::peak_memory_bytes);
  table +=
      fmt::format("peak memory {} (rank {})", human_bytes(largest.peak_memory_bytes), largest.rank);
  if (report.calibration_s > 0 && !report.job.statistics.used()) {
    table += fmt::format(", calibration {} tokens/s",
                         with_separators(static_cast<int64_t>(report.tokens_per_second())));
  }
  return table + "\n" + device_memory_line(report.ranks) + cost_line(report.ranks);
}

std::vector<std::vector<std::string>> comparison_rows(const std::vector<ComparedModel>& models) {
  std::vector<std::vector<std::string>> rows = {{"name", "method", "target", "format", "width",
                                                 "bytes", "of dense", "perplexity", "change", "KL",
                                                 "agreement", "took", "output"}};
  for (const ComparedModel& model : models) {
    const ReportSummary& summary = model.summary;
    const ModelReport& dense = summary.dense;
    const ModelReport& compressed = summary.compressed;
    const bool scored = dense.perplexity && compressed.perplexity;
    rows.push_back({printable(summary.name), printable(summary.method), printable(summary.target),
                    summary.stock ? "stock" : "custom", width_text(summary),
                    human_bytes(compressed.bytes), format_percent(summary.bytes_fraction()),
                    scored ? format_perplexity(*compressed.perplexity) : "",
                    scored ? format_change(*dense.perplexity, *compressed.perplexity) : "",
                    compressed.kl ? format_nats(*compressed.kl) : "",
                    compressed.agreement ? format_percent(*compressed.agreement) : "",
                    format_duration(summary.wall_time_s), printable(model.path)});
  }
  return rows;
}

std::string comparison_warning(const std::vector<ComparedModel>& models) {
  const auto tokens_of = [](const ComparedModel& model) {
    const auto found = model.summary.fingerprints.find("evaluation_tokens");
    return found == model.summary.fingerprints.end() ? std::string() : found->second;
  };
  const bool same = std::ranges::all_of(models, [&](const ComparedModel& model) {
    return tokens_of(model) == tokens_of(models.front());
  });
  return same ? "" : "not all perplexities are over the same tokens: they cannot be compared";
}

std::string comparison_table(const std::vector<ComparedModel>& models) {
  const std::vector<std::vector<std::string>> rows = comparison_rows(models);
  std::vector<Align> alignment(rows.front().size(), Align::kRight);
  std::fill_n(alignment.begin(), 4, Align::kLeft);
  alignment.back() = Align::kLeft;
  const std::string warning = comparison_warning(models);
  return format_table(rows, alignment) + (warning.empty() ? "" : "\n" + warning + "\n");
}

std::string width_text(const ReportSummary& summary) {
  return summary.width_range +
         (summary.hidden_size ? " of " + std::to_string(*summary.hidden_size) : "");
}

}  // namespace dotresize
