// The verb report: shows results from the reports in model directories.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/files/partial_path.h"
#include "base/process/program.h"
#include "base/text/printable.h"
#include "client/calls/connection.h"
#include "client/calls/job_id.h"
#include "client/calls/read_page.h"
#include "client/display/job_text.h"
#include "client/display/json_output.h"
#include "client/display/sweep_output.h"
#include "client/verbs/verb.h"
#include "job/page/page.h"
#include "job/report/comparison_table.h"
#include "job/report/report.h"
#include "job/sweep/results_message.h"
#include "job/sweep/variant_paths.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

/// Model directory of a succeeded job. Throws InputError for any other job.
fs::path output_of(const std::string& id_or_prefix, const CommonOptions& common) {
  Connection connection = common.connect();
  const std::string id = find_job_id(connection, id_or_prefix);
  const v1::Job job = connection.get_job(id);
  if (job.has_sweep()) {
    throw InputError("job " + id + " is a sweep: `dotresize report " + id + "` shows it alone");
  }
  if (job.state() != v1::Job::SUCCEEDED) {
    throw InputError("job " + id + " has no report: it is " + state_name(job));
  }
  return job.result().output_path();
}

/// A model directory with a report.
struct ReportedModel {
  fs::path dir;
  fs::path file;
  ReportSummary summary;
};

/// True if `what` is spelled like a path, not like an id.
bool looks_like_a_path(const std::string& what) {
  return what.find('/') != std::string::npos || what.find('.') != std::string::npos;
}

void require_found(const std::string& what) {
  if (fs::is_directory(what)) return;
  if (fs::exists(what)) throw InputError(in_quotes(what) + " is a file: name its model directory");
  if (looks_like_a_path(what)) throw InputError(in_quotes(what) + ": no such directory");
}

/// Finds a report. `what`: the id of a succeeded job, or a model directory.
ReportedModel find_report(const std::string& what, const CommonOptions& common) {
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
  return {model_dir, file, read_report_summary(model_dir)};
}

nlohmann::ordered_json document_of(const ReportedModel& model) {
  std::ifstream stream(model.file);
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

std::vector<ReportedModel> find_reports(const std::vector<std::string>& asked,
                                        const CommonOptions& common) {
  std::vector<ReportedModel> models;
  models.reserve(asked.size());
  for (const std::string& what : asked) models.push_back(find_report(what, common));
  return models;
}

std::vector<ComparedModel> compared(const std::vector<ReportedModel>& models) {
  std::vector<ComparedModel> all;
  all.reserve(models.size());
  for (const ReportedModel& model : models) all.push_back({model.dir.string(), model.summary});
  return all;
}

int print_reports(const std::vector<std::string>& asked, const CommonOptions& common) {
  for (const std::string& what : asked) require_found(what);
  const auto sweep = asked.size() == 1 ? find_sweep(asked.front(), common) : std::nullopt;
  if (sweep) {
    print_sweep(*sweep, /*pareto=*/false, common);
    return kExitOk;
  }
  const std::vector<ReportedModel> models = find_reports(asked, common);
  if (models.size() == 1) {
    const ReportedModel& model = models.front();
    if (common.json()) {
      print_json(document_of(model));
    } else {
      std::cout << report_text(model.summary) << "\noutput  " << model.dir.string() << "\n";
    }
    return kExitOk;
  }
  if (common.json()) {
    nlohmann::ordered_json reports = nlohmann::ordered_json::array();
    for (const ReportedModel& model : models) reports.push_back(document_of(model));
    print_json({{"reports", std::move(reports)}});
    return kExitOk;
  }
  std::cout << comparison_table(compared(models));
  return kExitOk;
}

/// Writes the page of one job or sweep, or one that compares several jobs, and prints its path.
int write_page(const std::vector<std::string>& asked, const fs::path& file,
               const CommonOptions& common) {
  for (const std::string& what : asked) require_found(what);
  const Page page = asked.size() == 1 ? read_page(asked.front(), common)
                                      : comparison_page(compared(find_reports(asked, common)));
  write_file_atomically(file, page_html(page));
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
      add_server_verb(app, common, "report", "Show what a compression gave, or compare several",
                      "  dotresize report out/docs-llama-80\n"
                      "  dotresize report out/docs-llama-80 out/docs-llama-70\n"
                      "  dotresize report j-451f3da65440ea8f -o json\n"
                      "  dotresize report out/sweep --html sweep.html\n"
                      "  dotresize report out/docs-llama-80 out/docs-llama-70 --html both.html\n");
  auto what = std::make_shared<std::vector<std::string>>();
  auto page = std::make_shared<std::string>();
  command
      .add_option("--html", *page,
                  "Write a page with plots, also of a job that has failed, of a sweep's directory, "
                  "and of several models")
      ->type_name("FILE");
  command.add_option("ID|DIR", *what, "Jobs that have succeeded, model directories, or one sweep")
      ->required()
      ->type_name("...");
  return {&command, [what, page, &common] {
            return page->empty() ? print_reports(*what, common) : write_page(*what, *page, common);
          }};
}

}  // namespace dotresize
