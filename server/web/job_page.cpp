#include "server/web/job_page.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/errors.h"
#include "base/files/partial_path.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/spec/job_file.h"
#include "job/spec/sweep_file.h"
#include "job/status/job_rows.h"
#include "job/sweep/sweep_results.h"
#include "server/store/job_output.h"
#include "server/store/resources.h"
#include "server/web/frame.h"
#include "server/web/job_lists.h"

namespace dotresize {
namespace {

using ctemplate::TemplateDictionary;
using Rows = std::vector<std::vector<std::string>>;

// Parsed, a report takes several times as much memory.
constexpr size_t kMaxShownBytes = size_t{16} << 20;

std::vector<PageAction> actions_on(const v1::Job& job) {
  const auto address = [&](const char* verb) { return "/jobs/" + job.id() + "/" + verb; };
  if (!has_ended(job.state())) {
    if (job.cancelling()) return {};
    return {
        {address("cancel"), "Cancel", "Cancel the job",
         "The job is stopped and its partial results are removed. A sweep's directory is kept."}};
  }
  std::vector<PageAction> actions;
  if (job.state() != v1::Job::SUCCEEDED) {
    actions.push_back({address("resume"), "Resume", "Resume the job",
                       "The job is queued again and continues from the work of earlier attempts."});
    if (job.unfinished_bytes() > 0 && !job.has_sweep()) {
      actions.push_back({address("restart"), "Start afresh", "Start the job afresh",
                         "The job is queued again. Its journal is removed first."});
    }
  }
  actions.push_back({address("delete"), "Delete", "Delete the job",
                     "The job, its log and its unfinished output are removed. A model that it has "
                     "made is kept."});
  return actions;
}

/// Rows of job_rows() that the page does not show elsewhere, and the job's resources and options.
Rows facts_of(const JobPageView& view, std::time_t now) {
  constexpr std::array<const char*, 5> kElsewhere = {"job", "name", "state", "progress", "error"};
  const v1::Job& job = view.job;
  Rows rows = job_rows(job, now);
  std::erase_if(rows, [&](const auto& row) {
    return std::ranges::find(kElsewhere, row.front()) != kElsewhere.end();
  });
  if (view.silence) {
    rows.push_back(
        {"last heartbeat", format_duration(static_cast<double>(view.silence->count())) + " ago"});
  }
  rows.push_back({"ranks", std::to_string(ranks_at_once(job))});
  if (!job.gpus().empty()) rows.push_back({"GPUs", job.gpus()});
  if (job.memory_bytes() > 0) rows.push_back({"memory", human_bytes(job.memory_bytes())});
  if (job.has_owner()) rows.push_back({"owner", job.owner()});
  if (job.options().priority() != 0) {
    rows.push_back({"priority", std::to_string(job.options().priority())});
  }
  const auto& labels = job.options().labels();  // unordered
  for (const auto& [key, value] :
       std::map<std::string, std::string>{labels.begin(), labels.end()}) {
    rows.push_back({"label " + key, value});
  }
  return rows;
}

void add_warnings(TemplateDictionary& page, const JobPageView& view) {
  std::vector<std::string> warnings =
      view.report ? view.report->warnings : std::vector<std::string>{};
  if (!view.report_fault.empty()) warnings.push_back(view.report_fault);
  if (!warnings.empty()) page.ShowSection("HAS_WARNINGS");
  for (const std::string& warning : warnings) {
    set_text(*page.AddSectionDictionary("WARNING"), "TEXT", warning);
  }
}

/// Adds a text that keeps its line breaks.
TemplateDictionary& add_lines(TemplateDictionary& page, const std::string& heading,
                              const std::string& lines) {
  TemplateDictionary& text = *page.AddSectionDictionary("TEXT");
  set_text(text, "HEADING", heading);
  text.SetValue("LINES", printable_lines(lines));
  return text;
}

}  // namespace

std::string job_page_html(const JobPageView& view, std::time_t now) {
  const v1::Job& job = view.job;
  TemplateDictionary dictionary("job");
  set_text(dictionary, "KIND", job.has_sweep() ? "Sweep" : "Job");
  set_text(dictionary, "ID", job.id());
  set_text(dictionary, "NAME", job.spec().name().empty() ? "unnamed job" : job.spec().name());
  set_text(dictionary, "STATE", state_name(job));
  set_text(dictionary, "STATE_CLASS", state_name(job));
  const bool failed = job.state() == v1::Job::FAILED;  // its error is shown elsewhere
  set_text(dictionary, "SUMMARY",
           view.report ? view.report->summary
           : failed    ? ""
                       : status_line_of(job));
  if (!has_ended(job.state())) dictionary.ShowSection("LIVE");
  if (is_launched(job.state())) {
    set_text(*dictionary.AddSectionDictionary("PROGRESS"), "SHARE",
             std::to_string(percent_of(job.progress())));
  }
  set_embedded(dictionary, "ACTIONS", actions_html(actions_on(job), view.form_token));
  if (view.has_report_page) dictionary.ShowSection("HAS_REPORT_PAGE");
  if (has_ended(job.state()) && !view.log_tail.empty()) dictionary.ShowSection("FILES");
  if (job.has_error()) {
    dictionary.SetValueAndShowSection("ERROR", printable(error_text(job.error())), "HAS_ERROR");
  }
  add_warnings(dictionary, view);
  for (const auto& row : facts_of(view, now)) {
    TemplateDictionary& fact = *dictionary.AddSectionDictionary("FACT");
    set_text(fact, "FACT_NAME", row.front());
    set_text(fact, "FACT_VALUE", row.back());
  }
  if (view.report) {
    set_embedded(*dictionary.AddSectionDictionary("REPORT"), "KEY_FIGURES",
                 key_figures_html(*view.report));
  }
  if (const std::string& tail = view.log_tail; !tail.empty()) {
    const bool whole = tail.size() < kShownLogBytes;
    add_lines(dictionary, whole ? "Log" : "End of the log", whole_lines(tail, kShownLogBytes))
        .ShowSection("TAIL");
  }
  add_lines(
      dictionary, "Request",
      job.has_sweep() ? sweep_to_json(job.spec(), job.sweep()) : job_spec_to_json(job.spec()));
  return expand_template(job_template(), "job.html", dictionary);
}

bool may_have_report(const v1::Job& job) {
  return job.has_sweep() ? job.attempt() > 0 : job.state() == v1::Job::SUCCEEDED;
}

Page read_report_page(const v1::Job& job, const std::filesystem::path& output) {
  if (!job.has_sweep() && !JobOutput(output, job.id()).is_committed()) {
    throw InputError(output.string() + " is no longer the model of this job");
  }
  const std::filesystem::path file =
      job.has_sweep() ? output / kSweepResults : output / kReportDirectory / kReportFile;
  const std::optional<std::string> text = read_pinned_file(file, kMaxShownBytes);
  if (!text) throw InputError(file.string() + " no longer exists");
  return job.has_sweep() ? sweep_page(*text, file.string())
                         : report_page(parse_report(*text, file.string()));
}

}  // namespace dotresize
