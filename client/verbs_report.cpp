// What compressions gave, from the reports in their model directories.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include "base/durable_file.h"
#include "base/errors.h"
#include "base/partial_path.h"
#include "base/program.h"
#include "client/connection.h"
#include "client/job_id.h"
#include "client/job_text.h"
#include "client/json_output.h"
#include "client/read_page.h"
#include "client/sweep_output.h"
#include "client/verb.h"
#include "job/report/report.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

/// The model directory of a job that has succeeded. Throws InputError for any other.
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

/// The sweep of this id; nothing if `what` is something else.
std::optional<v1::Sweep> find_sweep(const std::string& what, const CommonOptions& common) {
  if (fs::is_directory(what)) return std::nullopt;
  Connection connection = common.connect();
  const std::string id = find_job_id(connection, what);
  if (!connection.get_job(id).has_sweep()) return std::nullopt;
  return connection.get_sweep(id);
}

/// A model directory with a report.
struct ReportedModel {
  fs::path dir;
  fs::path file;
  ReportSummary summary;
};

/// `what`: the id of a job that has succeeded, or a model directory.
ReportedModel find_report(const std::string& what, const CommonOptions& common) {
  const fs::path model_dir = fs::is_directory(what) ? fs::path(what) : output_of(what, common);
  const fs::path file = model_dir / kReportDirectory / kReportFile;
  if (!fs::exists(file)) {
    throw InputError(file.string() + ": no such file here" +
                     (fs::is_directory(what)
                          ? "; is this a model that dotresize wrote?"
                          : "; `dotresize status " + what + "` shows what the server knows"));
  }
  return {model_dir, file, read_report_summary(model_dir)};
}

nlohmann::ordered_json document_of(const ReportedModel& model) {
  std::ifstream stream(model.file);
  return nlohmann::ordered_json::parse(stream);
}

int print_reports(const std::vector<std::string>& asked, const CommonOptions& common) {
  const auto sweep = asked.size() == 1 ? find_sweep(asked.front(), common) : std::nullopt;
  if (sweep) {
    print_sweep(*sweep, /*pareto=*/false, common);
    return kExitOk;
  }
  std::vector<ReportedModel> models;
  models.reserve(asked.size());
  for (const std::string& what : asked) models.push_back(find_report(what, common));
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
  std::vector<ReportSummary> summaries;
  summaries.reserve(models.size());
  for (const ReportedModel& model : models) summaries.push_back(model.summary);
  std::cout << comparison_table(summaries);
  return kExitOk;
}

/// Writes the page of one job or sweep; says where.
int write_page(const std::vector<std::string>& asked, const fs::path& file,
               const CommonOptions& common) {
  if (asked.size() > 1) {
    throw InputError("--html", "makes the page of one job or sweep, not of several");
  }
  write_file_atomically(file, page_html(read_page(asked.front(), common)));
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
                      "  dotresize report out/sweep --html sweep.html\n");
  auto what = std::make_shared<std::vector<std::string>>();
  auto page = std::make_shared<std::string>();
  command
      .add_option("--html", *page,
                  "Write a page with plots, also of a job that has failed, and of a sweep's "
                  "directory")
      ->type_name("FILE");
  command.add_option("ID|DIR", *what, "Jobs that have succeeded, model directories, or one sweep")
      ->required()
      ->type_name("...");
  return {&command, [what, page, &common] {
            return page->empty() ? print_reports(*what, common) : write_page(*what, *page, common);
          }};
}

}  // namespace dotresize
