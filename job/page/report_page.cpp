#include "job/page/report_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/page/figures/report_figures.h"
#include "job/page/figures/transport_figures.h"
#include "job/report/result_table.h"

namespace dotresize {
namespace {

using nlohmann::json;

constexpr size_t kMaxValue = 300;

/// Formats a value of a report for people.
std::string shown(const json& value) {
  if (value.is_string()) return printable(value.get<std::string>(), kMaxValue);
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer()) return with_separators(value.get<int64_t>());
  if (value.is_number()) return short_number(value.get<double>());
  if (value.is_array() && value.size() == 1) return shown(value.front());
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace), kMaxValue);
}

const std::vector<std::pair<std::string, std::string>> kFacts = {
    {"Model", "/model/path"},
    {"Dtype of the model", "/model/dtype"},
    {"Output", "/output/path"},
    {"Dtype of the output", "/output/dtype"},
    {"model_type of the output", "/output/model_type"},
    {"Method", "/method/name"},
    {"Sparsity", "/method/sparsity"},
    {"Size", "/method/size"},
    {"λ", "/method/lambda"},
    {"Metric", "/method/metric"},
    {"Sharing of maps", "/method/map_sharing"},
    {"Shortcuts", "/method/shortcuts"},
    {"Head", "/method/head"},
    {"MLPs", "/method/mlp"},
    {"Allocation", "/method/allocate"},
    {"Features by layer", "/allocation/features"},
    {"Predicted KL (nats a token)", "/allocation/predicted_kl"},
    {"Measured KL (nats a token)", "/allocation/measured_kl"},
    {"Calibration text", "/calibration/text"},
    {"Calibration tokens from", "/calibration/tokens"},
    {"Calibration tokens", "/calibration/token_count"},
    {"Samples", "/calibration/samples"},
    {"Tokens a sample", "/calibration/seqlen"},
    {"Activations", "/calibration/activations"},
    {"Statistics", "/calibration/statistics"},
    {"Schedule", "/calibration/schedule"},
    {"Seconds of calibration", "/calibration/seconds"},
    {"Tokens a second", "/calibration/tokens_per_second"},
    {"Evaluation text", "/evaluation/text"},
    {"Evaluation tokens from", "/evaluation/tokens"},
    {"Predicted tokens", "/evaluation/predicted_tokens"},
    {"Tokens a window", "/evaluation/seqlen"},
    {"Device", "/device"},
    {"Compute dtype", "/compute_dtype"},
};

/// "pca_dotresize has made the model 200 of 256 channels wide: ..."
std::string summary_of(const ReportSummary& report) {
  std::string text =
      fmt::format("{} has made the model {}{} channels wide", report.method, report.width_range,
                  report.hidden_size ? fmt::format(" of {}", *report.hidden_size) : "");
  text += fmt::format(": {} of its bytes", format_percent(report.bytes_fraction()));
  if (report.dense.perplexity && report.compressed.perplexity) {
    text += fmt::format(", perplexity {} in place of {}",
                        format_perplexity(*report.compressed.perplexity),
                        format_perplexity(*report.dense.perplexity));
  }
  return text + fmt::format(", in {}.", format_duration(report.wall_time_s));
}

PageTable result_of(const ReportSummary& report) {
  PageTable table{"Result", {}, result_rows(report.dense, report.compressed)};
  table.heading = table.rows.front();
  table.rows.erase(table.rows.begin());
  for (auto& row : table.rows) {
    if (row.front() == "KL") row.front() = "KL (nats a token)";
    if (row.front() == "bytes") row.front() = "net size";
  }
  return table;
}

/// Explanations of those measures on the page whose names are not clear.
PageTable terms_of(const StoredReport& report) {
  PageTable table{"Terms", {"term", "meaning"}, {}, /*prose=*/true};
  const ModelReport& compressed = report.summary.compressed;
  if (compressed.kl) {
    table.rows.push_back({"KL",
                          "how far the predictions are from the dense model's, in the mean over "
                          "the tokens; 0 if they are the same"});
  }
  if (compressed.agreement) {
    table.rows.push_back(
        {"agreement", "share of the tokens at which both models hold the same one most likely"});
  }
  table.rows.push_back(
      {"net size", "bytes of every stored tensor, each once, in the dtype of the file"});
  if (std::ranges::any_of(report.junctions, &JunctionReport::mapped)) {
    table.rows.push_back(
        {"effective rank", "directions that hold 99 % of the energy of a junction's activations"});
  }
  return table;
}

PageTable ranks_of(const StoredReport& report) {
  PageTable table{"Ranks", {"rank", "host", "GPU", "sublayers", "peak memory"}, {}};
  for (const RankReport& rank : report.ranks) {
    table.rows.push_back({std::to_string(rank.rank), rank.host, rank.gpu.empty() ? "–" : rank.gpu,
                          fmt::format("{} to {}", rank.first_sublayer, rank.end_sublayer),
                          human_bytes(rank.peak_memory_bytes)});
  }
  return table;
}

PageTable fingerprints_of(const ReportSummary& report) {
  PageTable table{"Fingerprints of the input", {"input", "SHA-256"}, {}, /*prose=*/true};
  for (const auto& [name, hash] : report.fingerprints) table.rows.push_back({name, hash});
  return table;
}

}  // namespace

std::vector<std::vector<std::string>> facts_of(
    const json& document, const std::vector<std::pair<std::string, std::string>>& pointers) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, pointer] : pointers) {
    const json::json_pointer at(pointer);
    if (document.contains(at)) rows.push_back({name, shown(document.at(at))});
  }
  return rows;
}

Page report_page(const StoredReport& report) {
  Page page;
  page.kind = "Compression";
  page.title = report.summary.name.empty() ? "unnamed job" : report.summary.name;
  page.summary = summary_of(report.summary);
  page.warnings = report.summary.warnings;
  page.tables = {result_of(report.summary), terms_of(report)};
  page.figures = report_figures(report);
  page.plans = plan_gallery(report);
  page.details = {
      {"What was done", {"what", "value"}, facts_of(report.document, kFacts), /*prose=*/true},
      ranks_of(report),
      fingerprints_of(report.summary)};
  return page;
}

}  // namespace dotresize
