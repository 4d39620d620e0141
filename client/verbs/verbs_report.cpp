// The verb report: shows results from the reports in model directories.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/files/partial_path.h"
#include "base/process/program.h"
#include "base/text/printable.h"
#include "client/calls/follow.h"
#include "client/display/job_view.h"
#include "client/verbs/verb.h"
#include "job/page/page.h"
#include "job/report/report_tables.h"
#include "job/report/stored_report.h"
#include "job/spec/job_file.h"
#include "job/status/job_rows.h"
#include "job/sweep/sweep_results.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

/// Largest part of a log that is shown, in bytes.
constexpr int64_t kLogTailBytes = 32'768;

/// True if `dir` is a directory written by `dotresize sweep`, and not a model.
bool is_sweep_directory(const fs::path& dir) {
  return fs::exists(dir / kSweepResults) && fs::is_directory(dir / kSweepVariants) &&
         !fs::exists(dir / kReportDirectory / kReportFile);
}

/// Model directory of a succeeded job. Throws InputError for any other job.
fs::path output_of(const std::string& id_or_prefix, const CommonOptions& common) {
  Connection connection = common.connect();
  const std::string id = find_job_id(connection, id_or_prefix);
  const v1::Job job = connection.get_job(id);
  if (job.has_sweep()) {
    throw InputError("job " + id + " is a sweep, which is reported alone: dotresize report " + id);
  }
  if (job.state() != v1::Job::SUCCEEDED) {
    throw InputError("job " + id + " has no report: it is " + state_name(job));
  }
  return job.result().output_path();
}

void require_found(const std::string& what) {
  if (fs::is_directory(what)) return;
  if (fs::exists(what))
    throw InputError(in_quotes(what) + " is a file: give the model directory that it is in");
  const bool is_like_an_id = std::string_view(what)
                                 .substr(what.starts_with("j-") ? 2 : 0)
                                 .find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_like_an_id) {
    throw InputError(in_quotes(what) + ": no such directory, and not the id of a job");
  }
}

/// Finds the report of a model. `what`: the id of a succeeded job, or a model directory.
ComparedModel find_report(const std::string& what, const CommonOptions& common) {
  if (is_sweep_directory(what)) {
    throw InputError(in_quotes(what) + " is a sweep's directory, which is reported alone");
  }
  const fs::path model_dir = fs::is_directory(what) ? fs::path(what) : output_of(what, common);
  const fs::path file = model_dir / kReportDirectory / kReportFile;
  if (!fs::exists(file)) {
    throw InputError(file.string() + ": no such file here" +
                     (fs::is_directory(what)
                          ? "; is this a model that dotresize wrote?"
                          : "; `dotresize fetch " + what + " DIR` brings it here"));
  }
  return {model_dir.string(), read_report_summary(model_dir)};
}

nlohmann::ordered_json document_of(const ComparedModel& model) {
  std::ifstream stream(fs::path(model.path) / kReportDirectory / kReportFile);
  return nlohmann::ordered_json::parse(stream);
}

/// Results of the sweep with this directory or id; nullopt if `what` is something else.
std::optional<v1::SweepResults> find_sweep(const std::string& what, const CommonOptions& common) {
  if (is_sweep_directory(what)) {
    return results_message(read_whole_file(fs::path(what) / kSweepResults, kMaxSweepBytes));
  }
  if (fs::is_directory(what)) return std::nullopt;
  Connection connection = common.connect();
  const std::string id = find_job_id(connection, what);
  if (!connection.get_job(id).has_sweep()) return std::nullopt;
  return connection.get_sweep(id).results();
}

std::vector<ComparedModel> find_reports(const std::vector<std::string>& asked,
                                        const CommonOptions& common) {
  std::vector<ComparedModel> models;
  models.reserve(asked.size());
  for (const std::string& what : asked) models.push_back(find_report(what, common));
  return models;
}

int print_reports(const std::vector<std::string>& asked, const CommonOptions& common) {
  for (const std::string& what : asked) require_found(what);
  const auto sweep = asked.size() == 1 ? find_sweep(asked.front(), common) : std::nullopt;
  if (sweep) {
    print_sweep(*sweep, /*pareto=*/false, common);
    return kExitOk;
  }
  const std::vector<ComparedModel> models = find_reports(asked, common);
  if (models.size() == 1) {
    const ComparedModel& model = models.front();
    if (common.json()) {
      print_json(document_of(model));
    } else {
      std::cout << report_text(model.summary) << "\noutput  " << model.path << "\n";
    }
    return kExitOk;
  }
  if (common.json()) {
    nlohmann::ordered_json reports = nlohmann::ordered_json::array();
    for (const ComparedModel& model : models) reports.push_back(document_of(model));
    print_json({{"reports", std::move(reports)}});
    return kExitOk;
  }
  std::cout << comparison_table(models);
  return kExitOk;
}

/// Page of a sweep's job that has left no report.
Page page_of_failure(const VariantPaths& at) {
  const std::string text = read_whole_file(at.job, kMaxJobFileBytes);
  EndedJob job{.state = "failed", .error = failure_in(at.log), .spec = text};
  if (job.error.empty()) {
    throw InputError(at.dir.string() + ": has no report: the job is running, or was interrupted");
  }
  job.name = parse_job(text, at.job.string(), at.dir.string()).spec.name();
  job.facts = {{"Directory", at.dir.string()}};
  const InputFile log(at.log.string());
  const uint64_t size = std::min(log.size(), static_cast<uint64_t>(kLogTailBytes));
  job.log_tail.resize(size);
  log.read(job.log_tail.data(), size, log.size() - size);
  job.log_tail = whole_lines(std::move(job.log_tail), kLogTailBytes);
  return failure_page(job);
}

Page page_of_directory(const fs::path& dir) {
  const fs::path report = dir / kReportDirectory / kReportFile;
  if (fs::exists(report)) {
    return report_page(parse_report(read_whole_file(report, kMaxReportBytes), report.string()));
  }
  if (is_sweep_directory(dir)) {
    const fs::path results = dir / kSweepResults;
    return sweep_page(read_whole_file(results, kMaxSweepBytes), results.string());
  }
  const VariantPaths variant{dir};
  if (fs::exists(variant.job) && fs::exists(variant.log)) return page_of_failure(variant);
  throw InputError(dir.string() +
                   ": is neither a model that dotresize wrote nor a sweep's directory");
}

Page page_of_job(const std::string& id_or_prefix, const CommonOptions& common) {
  Connection connection = common.connect();
  const std::string id = find_job_id(connection, id_or_prefix);
  const v1::Job job = connection.get_job(id);
  if (job.has_sweep()) {
    const auto [plan, rows] = reported_sweep(connection.get_sweep(id).results());
    if (!rows.empty()) return sweep_page(sweep_json(plan, rows), id);
  }
  if (job.state() == v1::Job::SUCCEEDED) return page_of_directory(job.result().output_path());
  if (!has_ended(job.state())) {
    throw InputError("job " + id + " has no report: it is " + state_name(job));
  }
  EndedJob ended{.name = job.spec().name(), .state = state_name(job)};
  ended.facts = job_rows(job, std::time(nullptr));
  std::erase_if(ended.facts, [](const auto& row) { return row.front() == "error"; });
  if (job.has_error()) ended.error = error_text(job.error());
  ended.spec = to_json(job.spec()).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  ended.log_tail = whole_lines(read_log_tail(connection, id, kLogTailBytes), kLogTailBytes);
  return failure_page(ended);
}

/// Writes the page of one job or sweep, or one that compares several jobs, and prints its path.
int write_page(const std::vector<std::string>& asked, const fs::path& file,
               const CommonOptions& common) {
  for (const std::string& what : asked) require_found(what);
  const std::string& first = asked.front();
  const Page page = asked.size() > 1          ? comparison_page(find_reports(asked, common))
                    : fs::is_directory(first) ? page_of_directory(first)
                                              : page_of_job(first, common);
  write_for_user(file, page_html(page));
  if (common.json()) {
    print_json({{"page", file.string()}});
  } else {
    std::cout << "page    " << file.string() << "\n";
  }
  return kExitOk;
}

}  // namespace

Verb add_report_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      add_server_verb(app, common, "report", "Show the result of a compression, or compare several",
                      "  dotresize report out/docs-llama-80\n"
                      "  dotresize report out/docs-llama-80 out/docs-llama-70\n"
                      "  dotresize report j-451f3da65440ea8f -o json\n"
                      "  dotresize report out/sweep --html sweep.html\n"
                      "  dotresize report out/docs-llama-80 out/docs-llama-70 --html both.html\n");
  auto what = std::make_shared<std::vector<std::string>>();
  auto page = std::make_shared<std::string>();
  add_value(command, "--html", "FILE", *page,
            "Write a page with plots; also for a failed job, a sweep's directory, and several "
            "models");
  add_value(command, "ID|DIR", "...", *what,
            "Jobs that have succeeded, model directories, or one sweep")
      ->required();
  return {&command, [what, page, &common] {
            return page->empty() ? print_reports(*what, common) : write_page(*what, *page, common);
          }};
}

}  // namespace dotresize
