#include "job/report/comparison_table.h"

#include <algorithm>

#include "base/text/human_text.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

std::vector<std::string> row_of(const ComparedModel& model) {
  const ReportSummary& summary = model.summary;
  const ModelReport& dense = summary.dense;
  const ModelReport& compressed = summary.compressed;
  const bool scored = dense.perplexity && compressed.perplexity;
  return {printable(summary.name),
          printable(summary.method),
          printable(summary.target),
          summary.stock ? "stock" : "custom",
          width_text(summary),
          human_bytes(compressed.bytes),
          format_percent(summary.bytes_fraction()),
          scored ? format_perplexity(*compressed.perplexity) : "",
          scored ? format_change(*dense.perplexity, *compressed.perplexity) : "",
          compressed.kl ? format_nats(*compressed.kl) : "",
          compressed.agreement ? format_percent(*compressed.agreement) : "",
          format_duration(summary.wall_time_s),
          printable(model.path)};
}

std::string tokens_of(const ComparedModel& model) {
  const auto found = model.summary.fingerprints.find("evaluation_tokens");
  return found == model.summary.fingerprints.end() ? std::string() : found->second;
}

}  // namespace

std::vector<std::vector<std::string>> comparison_rows(const std::vector<ComparedModel>& models) {
  std::vector<std::vector<std::string>> rows = {{"name", "method", "target", "format", "width",
                                                 "bytes", "of dense", "perplexity", "change", "KL",
                                                 "agreement", "took", "output"}};
  for (const ComparedModel& model : models) rows.push_back(row_of(model));
  return rows;
}

std::string comparison_warning(const std::vector<ComparedModel>& models) {
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
