#include "job/sweep/sweep_results.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/failure.h"
#include "base/files/confinement.h"
#include "base/files/durable_file.h"
#include "base/files/partial_path.h"
#include "base/process/work_budget.h"
#include "base/text/encodings.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/page/page.h"
#include "job/spec/job_file.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using OrderedJson = nlohmann::ordered_json;
using Variant = v1::SweepResults::Variant;

/// "lambda" for "method.lambda", unless another axis ends the same way.
std::vector<std::string> short_names(const SweepPlan& plan) {
  const auto last_part = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  std::map<std::string, int> count;
  for (const SweepAxis& axis : plan.file.axes) ++count[last_part(axis.key)];
  std::vector<std::string> names;
  for (const SweepAxis& axis : plan.file.axes) {
    const std::string part = last_part(axis.key);
    names.push_back(count[part] > 1 ? axis.key : part);
  }
  return names;
}

/// `divergence`: adds the columns KL and agreement.
std::vector<std::string> cells_of(const SweepRow& row, bool divergence) {
  std::vector<std::string> cells = row.values;
  if (row.report) {
    const ReportSummary& report = *row.report;
    cells.push_back(report.width_range);
    cells.push_back(format_percent(report.bytes_fraction()));
    cells.push_back(format_perplexity(*report.compressed.perplexity));
    cells.push_back(format_change(*report.dense.perplexity, *report.compressed.perplexity));
    if (divergence) {
      const ModelReport& compressed = report.compressed;
      cells.push_back(compressed.kl ? format_nats(*compressed.kl) : "");
      cells.push_back(compressed.agreement ? format_percent(*compressed.agreement) : "");
    }
    cells.push_back(row.front ? "*" : "");
    cells.push_back(row.best ? "*" : "");
  }
  return cells;
}

/// Lines for the rows that have a reason, that is, refused and failed ones.
std::string reasons_of(const SweepPlan& plan, const std::vector<SweepRow>& rows) {
  const std::vector<std::string> names = short_names(plan);
  std::string text;
  for (const SweepRow& row : rows) {
    if (row.reason.empty()) continue;
    std::string values;
    for (size_t i = 0; i < names.size(); ++i) {
      if (row.values[i] == kNotApplicable) continue;
      values += (values.empty() ? "" : " ") + names[i] + " " + row.values[i];
    }
    text += fmt::format("{}: {}: {}\n", Variant::State_Name(row.state), values, row.reason);
  }
  return text;
}

std::string number_or_empty(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

OrderedJson row_json(const SweepPlan& plan, const SweepRow& row) {
  OrderedJson values = OrderedJson::object();
  for (size_t i = 0; i < row.values.size(); ++i) {
    const bool used = row.values[i] != kNotApplicable;
    values[plan.file.axes[i].key] = used ? OrderedJson(row.values[i]) : OrderedJson();
  }
  OrderedJson object = {{"values", values}, {"state", Variant::State_Name(row.state)}};
  if (!row.id.empty()) object["id"] = row.id;
  if (!row.reason.empty()) object["reason"] = row.reason;
  if (!row.report) return object;
  const ReportSummary& report = *row.report;
  object["width"] = report.width;
  object["width_range"] = report.width_range;
  object["parameters"] = report.compressed.parameters;
  object["bytes"] = report.compressed.bytes;
  object["bytes_fraction"] = report.bytes_fraction();
  object["perplexity"] = *report.compressed.perplexity;
  if (report.compressed.kl) object["kl"] = *report.compressed.kl;
  if (report.compressed.agreement) object["agreement"] = *report.compressed.agreement;
  object["pareto"] = row.front;
  object["best"] = row.best;
  object["wall_time_s"] = report.wall_time_s;
  if (!row.model.empty()) object["model"] = row.model.string();
  return object;
}

/// Reads the report of a finished job; nullopt if it is missing or incomplete.
std::optional<ReportSummary> report_in(const fs::path& dir) {
  if (!fs::exists(dir / kReportDirectory / kReportFile)) return std::nullopt;
  try {
    ReportSummary report = read_report_summary(dir);
    if (!report.dense.perplexity || !report.compressed.perplexity) return std::nullopt;
    return report;
  } catch (const InputError&) {  // a damaged file: the job is run again
    return std::nullopt;
  }
}

constexpr size_t kMaxText = 2000;

ReportSummary report_of(const v1::SweepResults& results, const Variant& variant) {
  const v1::SweepResults::Dense& dense = results.dense();
  ReportSummary report;
  report.width = variant.width();
  report.width_range = printable(variant.width_range(), kMaxText);
  report.dense = {dense.parameters(), dense.bytes(), dense.perplexity()};
  report.compressed = {variant.parameters(), variant.bytes(), variant.perplexity()};
  if (variant.has_kl()) report.compressed.kl = variant.kl();
  if (variant.has_agreement()) report.compressed.agreement = variant.agreement();
  report.wall_time_s = variant.wall_time_s();
  return report;
}

SweepRow row_of(const v1::SweepResults& results, const Variant& variant) {
  SweepRow row;
  for (const std::string& axis : results.axes()) {
    const auto value = variant.values().fields().find(axis);
    const bool used = value != variant.values().fields().end() && !value->second.has_null_value();
    row.values.push_back(used ? printable(value->second.string_value(), kMaxText) : kNotApplicable);
  }
  row.id = printable(variant.id(), kMaxText);
  if (Variant::State_IsValid(variant.state())) row.state = variant.state();
  row.reason = printable(variant.reason(), kMaxText);
  if (row.state == Variant::done) row.report = report_of(results, variant);
  row.model = printable(variant.model(), kMaxText);
  row.front = variant.pareto();
  row.best = variant.best();
  return row;
}

}  // namespace

std::string failure_in(const fs::path& log) {
  std::string message;
  UniqueFd opened = Confinement::of_process().open(log, O_RDONLY);
  if (!opened) return message;
  std::ifstream file(path_of_descriptor(opened.get()));
  for (std::string line; std::getline(file, line);) {
    if (const auto failure = parse_failure_line(line)) message = failure->message;
  }
  return message;
}

std::vector<SweepRow> rows_of(const SweepPlan& plan) {
  std::vector<SweepRow> rows;
  for (const SweepJob& job : plan.jobs) {
    WorkBudget::check();
    const WorkBudget::Temporary report_memory;
    SweepRow& row = rows.emplace_back();
    row.values = job.values;
    row.id = job.id;
    const VariantPaths paths{plan.directory / kSweepVariants / job.id};
    if (!fs::is_directory(fs::symlink_status(paths.dir))) continue;  // not a link to elsewhere
    row.report = report_in(paths.dir);
    if (row.report) row.state = Variant::done;
    if (row.report && fs::exists(paths.model)) row.model = paths.model;
  }
  for (const RefusedVariant& refused : plan.refused) {
    SweepRow& row = rows.emplace_back();
    row.values = refused.values;
    row.state = Variant::refused;
    row.reason = refused.reason;
  }
  return rows;
}

void compare_rows(const SweepPlan& plan, std::vector<SweepRow>& rows) {
  std::map<std::vector<std::string>, SweepRow*> best;
  for (SweepRow& row : rows) {
    WorkBudget::check();
    row.front = row.best = false;
    if (!row.report) continue;
    // A row that is at least as good in bytes and perplexity, and better in one, dominates.
    const ModelReport& own = row.report->compressed;
    row.front = std::ranges::none_of(rows, [&](const SweepRow& other) {
      if (!other.report) return false;
      const ModelReport& its = other.report->compressed;
      return its.bytes <= own.bytes && *its.perplexity <= *own.perplexity &&
             (its.bytes < own.bytes || *its.perplexity < *own.perplexity);
    });
    std::vector<std::string> target;
    for (size_t i = 0; i < row.values.size(); ++i) {
      const bool sets_size = std::ranges::find(kSizeKeys, plan.file.axes[i].key) != kSizeKeys.end();
      if (sets_size) target.push_back(row.values[i]);
    }
    SweepRow*& found = best[target];
    if (found == nullptr ||
        *row.report->compressed.perplexity < *found->report->compressed.perplexity) {
      found = &row;
    }
  }
  for (const auto& [target, row] : best) row->best = true;
}

std::string sweep_table(const SweepPlan& plan, const std::vector<SweepRow>& rows,
                        bool front_alone) {
  std::vector<std::vector<std::string>> cells = {short_names(plan)};
  const bool divergence = std::ranges::any_of(
      rows, [](const SweepRow& row) { return row.report && row.report->compressed.kl; });
  for (const std::string name :
       {"width", "net", "perplexity", "change", "KL", "agreement", "front", "best"}) {
    if (divergence || (name != "KL" && name != "agreement")) cells.front().push_back(name);
  }
  std::vector<Align> alignment(cells.front().size(), Align::kRight);
  std::fill_n(alignment.begin(), plan.file.axes.size(), Align::kLeft);
  std::vector<const SweepRow*> shown;
  for (const SweepRow& row : rows) {
    if (row.report && (row.front || !front_alone)) shown.push_back(&row);
  }
  if (front_alone) {
    std::ranges::sort(shown, {}, [](const SweepRow* row) { return row->report->compressed.bytes; });
  }
  for (const SweepRow* row : shown) cells.push_back(cells_of(*row, divergence));
  std::string text = format_table(cells, alignment);
  if (!shown.empty()) {
    text += fmt::format("dense: perplexity {}, {}\n",
                        format_perplexity(*shown.front()->report->dense.perplexity),
                        human_bytes(shown.front()->report->dense.bytes));
  }
  return text + (front_alone ? "" : reasons_of(plan, rows));
}

std::string sweep_jobs_table(const SweepPlan& plan, const std::vector<SweepRow>& rows) {
  std::vector<std::vector<std::string>> cells = {short_names(plan)};
  for (const char* name : {"width", "net", "ranks", "memory", "state"}) {
    cells.front().emplace_back(name);
  }
  std::vector<Align> alignment(cells.front().size(), Align::kRight);
  std::fill_n(alignment.begin(), plan.file.axes.size(), Align::kLeft);
  alignment.back() = Align::kLeft;
  for (size_t i = 0; i < plan.jobs.size(); ++i) {
    const SweepJob& job = plan.jobs[i];
    std::vector<std::string>& row = cells.emplace_back(job.values);
    row.push_back(job.width ? std::to_string(*job.width) : "by the loss");
    row.push_back(job.bytes_fraction ? format_percent(*job.bytes_fraction) : "by the loss");
    row.push_back(std::to_string(job.ranks));
    row.push_back(human_bytes(job.memory_bytes));
    row.push_back(Variant::State_Name(rows[i].state));
  }
  return format_table(cells, alignment) + reasons_of(plan, rows);
}

std::string sweep_csv(const SweepPlan& plan, const std::vector<SweepRow>& rows) {
  std::string text;
  for (const SweepAxis& axis : plan.file.axes) text += axis.key + ",";
  text +=
      "state,width,parameters,bytes,bytes_fraction,perplexity,dense_perplexity,kl,agreement,pareto,"
      "best,wall_time_s,id,model,reason\n";
  for (const SweepRow& row : rows) {
    for (const std::string& value : row.values) {
      text += csv_cell(value == kNotApplicable ? "" : value) + ",";
    }
    text += Variant::State_Name(row.state);
    if (row.report) {
      const ReportSummary& report = *row.report;
      text += fmt::format(
          ",{},{},{},{},{},{},{},{},{},{},{}", report.width, report.compressed.parameters,
          report.compressed.bytes, report.bytes_fraction(), *report.compressed.perplexity,
          *report.dense.perplexity, number_or_empty(report.compressed.kl),
          number_or_empty(report.compressed.agreement), row.front, row.best, report.wall_time_s);
    } else {
      text += std::string(11, ',');
    }
    text += fmt::format(",{},{},{}\n", csv_cell(row.id), csv_cell(row.model.string()),
                        csv_cell(row.reason));
  }
  return text;
}

std::string sweep_json(const SweepPlan& plan, const std::vector<SweepRow>& rows) {
  OrderedJson document = {{"schema_version", 1},
                          {"name", plan.file.base.spec.name()},
                          {"directory", plan.directory.string()},
                          {"combinations", plan.combinations},
                          {"axes", OrderedJson::array()},
                          {"variants", OrderedJson::array()}};
  for (const SweepAxis& axis : plan.file.axes) document["axes"].push_back(axis.key);
  for (const SweepRow& row : rows) {
    if (row.report && !document.contains("dense")) {
      document["dense"] = {{"parameters", row.report->dense.parameters},
                           {"bytes", row.report->dense.bytes},
                           {"perplexity", *row.report->dense.perplexity}};
    }
    document["variants"].push_back(row_json(plan, row));
  }
  return document.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

void write_results(const fs::path& directory, const SweepPlan& plan,
                   const std::vector<SweepRow>& rows) {
  write_file_atomically(directory / "results.csv", sweep_csv(plan, rows));
  const std::string document = sweep_json(plan, rows);
  write_file_atomically(directory / kSweepResults, document);
  const v1::Output& output = plan.file.base.spec.output();
  if (output.has_report_html() && !output.report_html()) return;
  write_file_atomically(directory / kPageFile, page_html(sweep_page(document, kSweepResults)));
}

v1::SweepResults results_message(const std::string& results_json) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // written by a later version
  v1::SweepResults results;
  const auto status = google::protobuf::util::JsonStringToMessage(results_json, &results, options);
  if (!status.ok()) throw InputError("results.json is not the result of a sweep");
  return results;
}

ReportedSweep reported_sweep(const v1::SweepResults& results) {
  ReportedSweep sweep;
  sweep.plan.file.base.spec.set_name(printable(results.name(), kMaxText));
  sweep.plan.directory = printable(results.directory(), kMaxText);
  sweep.plan.combinations = results.combinations();
  for (const std::string& axis : results.axes()) {
    sweep.plan.file.axes.push_back({printable(axis, kMaxText), {}});
  }
  for (const Variant& variant : results.variants()) {
    sweep.rows.push_back(row_of(results, variant));
  }
  return sweep;
}

}  // namespace dotresize
