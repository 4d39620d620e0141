#include "job/page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/errors.h"
#include "base/text/checked_json.h"
#include "base/text/human_text.h"
#include "job/plan/method.h"
#include "job/report/report_tables.h"
#include "job/spec/job_file.h"

namespace dotresize {
namespace {

using nlohmann::json;

/// "pca_dotresize has made the model 200 of 256 channels wide: ..."
std::string summary_of(const ReportSummary& report) {
  std::string text =
      fmt::format("{} has made the model {} channels wide: {} of its bytes", report.method,
                  width_text(report), format_percent(report.bytes_fraction()));
  if (report.dense.perplexity && report.compressed.perplexity) {
    text += fmt::format(", perplexity {} instead of {}",
                        format_perplexity(*report.compressed.perplexity),
                        format_perplexity(*report.dense.perplexity));
  }
  return text + fmt::format(", in {}.", format_duration(report.wall_time_s));
}

using Rows = std::vector<std::vector<std::string>>;

bool is_done(const json& variant) { return variant.at("state") == "done"; }

/// Value of an axis; "–" if the method does not read it.
std::string setting(const json& variant, const std::string& axis) {
  const json& value = variant.at("values").at(axis);
  return value.is_null() ? "–" : value.get<std::string>();
}

/// Throws nlohmann::json::exception unless results.json has all that the page shows, and
/// InputError, starting with `origin`, if it has no axes, or no list of variants.
void check_results(const json& results, const std::string& origin) {
  for (const char* key : {"name", "directory"}) results.at(key).get<std::string>();
  results.at("combinations").get<int64_t>();
  const auto axes = results.at("axes").get<std::vector<std::string>>();
  if (axes.empty()) throw InputError(origin + ": axes: must not be empty");
  if (results.contains("dense")) {
    for (const char* key : {"bytes", "perplexity"}) results.at("dense").at(key).get<double>();
  }
  if (!results.at("variants").is_array()) throw InputError(origin + ": variants: must be a list");
  for (const json& variant : results.at("variants")) {
    for (const std::string& axis : axes) setting(variant, axis);
    variant.at("state").get<std::string>();
    variant.value("reason", "");
    if (!is_done(variant)) continue;
    for (const char* key : {"width", "bytes", "bytes_fraction", "perplexity"}) {
      variant.at(key).get<double>();
    }
    for (const char* key : {"pareto", "best"}) variant.at(key).get<bool>();
    std::optional<double> measured;
    for (const char* key : {"kl", "agreement"}) get_if(variant, key, measured);
  }
}

std::optional<double> dense_perplexity(const json& results) {
  if (!results.contains("dense")) return std::nullopt;
  return results.at("dense").at("perplexity").get<double>();
}

/// "8 combinations of settings, 7 done, 1 refused. Least perplexity: ..."
std::string summary_of(const json& results) {
  std::map<std::string, int64_t> counts;
  const json* best = nullptr;
  for (const json& variant : results.at("variants")) {
    ++counts[variant.at("state").get<std::string>()];
    if (!is_done(variant)) continue;
    if (best == nullptr || variant.at("perplexity") < best->at("perplexity")) best = &variant;
  }
  std::string text = counted(results.at("combinations"), "combination") + " of settings";
  for (const char* state : {"done", "failed", "refused", "pending"}) {
    if (counts.contains(state)) text += fmt::format(", {} {}", counts.at(state), state);
  }
  if (best == nullptr) return text + ".";
  text += fmt::format(". Least perplexity: {} at {} of the dense model's bytes",
                      format_perplexity(best->at("perplexity")),
                      format_percent(best->at("bytes_fraction")));
  const std::optional<double> dense = dense_perplexity(results);
  if (dense) text += fmt::format(", of the dense model {}", format_perplexity(*dense));
  return text + ".";
}

/// The jobs on the Pareto front, by size.
Rows front_of(const json& results) {
  std::vector<const json*> front;
  for (const json& variant : results.at("variants")) {
    if (is_done(variant) && variant.at("pareto")) front.push_back(&variant);
  }
  std::ranges::sort(front, {}, [](const json* each) { return each->at("bytes").get<double>(); });
  const auto axes = results.at("axes").get<std::vector<std::string>>();
  const std::optional<double> dense = dense_perplexity(results);
  Rows rows = {axes};
  for (const char* name : {"width", "net", "perplexity", "change"}) rows[0].emplace_back(name);
  for (const json* variant : front) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const std::string& axis : axes) row.push_back(setting(*variant, axis));
    const double perplexity = variant->at("perplexity");
    row.push_back(std::to_string(variant->at("width").get<int64_t>()));
    row.push_back(format_percent(variant->at("bytes_fraction")));
    row.push_back(format_perplexity(perplexity));
    row.push_back(dense ? format_change(*dense, perplexity) : "");
  }
  return rows;
}

}  // namespace

Page report_page(const StoredReport& report) {
  const ReportSummary& summary = report.summary;
  const auto* const method = std::ranges::find(kMethods, summary.method, &Method::name);
  const bool principal_components = method != kMethods.end() && method->pca();
  return {.kind = "Compression",
          .title = summary.name.empty() ? "unnamed job" : summary.name,
          .summary = summary_of(summary),
          .warnings = summary.warnings,
          .caption = "Result",
          .key_figures = result_rows(summary.dense, summary.compressed),
          .data = page_json({{"kind", "job"},
                             {"report", report.document},
                             {"principal_components", principal_components}})};
}

Page sweep_page(const std::string& results, const std::string& origin) {
  const json document = parse_json_object(results, origin);
  try {
    check_results(document, origin);
  } catch (const json::exception& error) {
    throw InputError(origin + ": " + json_fault(error));
  }
  const std::string name = document.at("name");
  return {.kind = "Sweep",
          .title = name.empty() ? "unnamed sweep" : name,
          .summary = summary_of(document),
          .caption = "Pareto front",
          .key_figures = front_of(document),
          .data = page_json({{"kind", "sweep"}, {"results", document}, {"size_keys", kSizeKeys}})};
}

Page comparison_page(const std::vector<ComparedModel>& models) {
  Page page{.kind = "Comparison",
            .title = counted(std::ssize(models), "model"),
            .summary = "What these compressions gave, side by side.",
            .caption = "Models",
            .key_figures = comparison_rows(models)};
  const std::string warning = comparison_warning(models);
  if (!warning.empty()) page.warnings.push_back(warning);
  json shown = json::array();
  for (const auto& [path, summary] : models) {
    json& model = shown.emplace_back(json{
        {"path", path}, {"method", summary.method}, {"bytes_fraction", summary.bytes_fraction()}});
    set_if(model, "perplexity", summary.compressed.perplexity);
    set_if(model, "dense_perplexity", summary.dense.perplexity);
  }
  page.data = page_json({{"kind", "comparison"}, {"models", std::move(shown)}});
  return page;
}

Page failure_page(const EndedJob& job) {
  Page page{.kind = "Compression without a result",
            .title = job.name.empty() ? "unnamed job" : job.name,
            .summary = fmt::format("The job has {} and left no model.",
                                   job.state == "cancelled" ? "been cancelled" : "failed"),
            .error = job.error,
            .caption = "The job",
            .key_figures = {{"what", "value"}}};
  page.key_figures.insert(page.key_figures.end(), job.facts.begin(), job.facts.end());
  page.data =
      page_json({{"kind", "failure"}, {"job", {{"log_tail", job.log_tail}, {"spec", job.spec}}}});
  return page;
}

}  // namespace dotresize
