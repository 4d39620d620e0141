#include "server/web/job_pages.h"

#include <fmt/format.h>

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
#include "server/common/api_error.h"
#include "server/store/job_output.h"
#include "server/store/resources.h"
#include "server/web/frame.h"

namespace dotresize {
namespace {

using ctemplate::TemplateDictionary;
using Rows = std::vector<std::vector<std::string>>;

// Parsed, a report takes several times as much memory.
constexpr size_t kMaxShownBytes = size_t{16} << 20;
constexpr size_t kMaxReason = 200;
constexpr int kJobsOnPage = 50;

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

void add_tile(TemplateDictionary& page, const std::string& name, const std::string& value) {
  TemplateDictionary& tile = *page.AddSectionDictionary("TILE");
  set_text(tile, "NAME", name);
  set_text(tile, "VALUE", value);
}

/// Adds a tile with the use of a resource: "6 of 8", with a bar.
void add_use(TemplateDictionary& page, const std::string& name, int64_t used, int64_t capacity,
             std::string (*format)(int64_t)) {
  if (capacity == 0 && used == 0) return add_tile(page, name, "none");
  TemplateDictionary& tile = *page.AddSectionDictionary("TILE");
  set_text(tile, "NAME", name);
  set_text(tile, "VALUE", format(used) + " of " + format(capacity));
  TemplateDictionary& meter = *tile.AddSectionDictionary("METER");
  set_text(meter, "USED", std::to_string(used));
  set_text(meter, "MAX", std::to_string(capacity));
}

std::string count_text(int64_t count) { return std::to_string(count); }

/// Progress, reason to wait, or outcome of the job in a few words; "" if its state says it all.
std::string status_line_of(const v1::Job& job) {
  switch (job.state()) {
    case v1::Job::QUEUED: {
      if (!job.has_queue_position()) return "";
      std::string text =
          fmt::format("number {}; waits for {}", job.queue_position(), job.waiting_for());
      if (job.has_retry_time()) text += ", not before " + date_text(job.retry_time());
      return text;
    }
    case v1::Job::STARTING:
      return job.launcher_status();
    case v1::Job::RUNNING:
      return render_plain(job.progress());
    case v1::Job::SUCCEEDED: {
      if (job.has_sweep()) return counted(job.sweep_size().jobs(), "job") + " of a sweep";
      const v1::ModelSize& dense = job.result().dense();
      const v1::ModelSize& compressed = job.result().compressed();
      if (dense.bytes() == 0 || compressed.bytes() == 0) return "";
      std::string text = format_percent(static_cast<double>(compressed.bytes()) /
                                        static_cast<double>(dense.bytes())) +
                         " of the bytes";
      if (dense.perplexity() > 0 && compressed.perplexity() > 0) {
        text +=
            fmt::format(", perplexity {} instead of {}", format_perplexity(compressed.perplexity()),
                        format_perplexity(dense.perplexity()));
      }
      return text;
    }
    case v1::Job::FAILED:
      return printable(error_text(job.error()), kMaxReason);
    default:
      return "";
  }
}

/// Content of a table of jobs.
struct JobTableView {
  std::string heading;
  std::vector<v1::Job> jobs;
  std::string none;            ///< text shown if there are no jobs
  std::string all_state = {};  ///< filter of the link at the end; empty: no link
  std::string all_text = {};
};

/// HTML table with a row for each job.
std::string job_table_html(const JobTableView& view, std::time_t now) {
  TemplateDictionary dictionary("job_table");
  set_text(dictionary, "HEADING", view.heading);
  if (!view.all_state.empty()) {
    TemplateDictionary& all = *dictionary.AddSectionDictionary("ALL");
    set_text(all, "ALL_STATE", view.all_state);
    set_text(all, "ALL_TEXT", view.all_text);
  }
  if (view.jobs.empty()) {
    set_text(*dictionary.AddSectionDictionary("NONE"), "NONE_TEXT", view.none);
    return expand_template(job_table_template(), "job_table.html", dictionary);
  }
  TemplateDictionary& table = *dictionary.AddSectionDictionary("SOME");
  const bool owners = std::ranges::any_of(view.jobs, &v1::Job::has_owner);
  if (owners) table.ShowSection("OWNERS");
  for (const v1::Job& job : view.jobs) {
    TemplateDictionary& row = *table.AddSectionDictionary("JOB");
    set_text(row, "ID", job.id());
    set_text(row, "NAME", job.spec().name().empty() ? "unnamed" : job.spec().name());
    set_text(row, "STATE", state_name(job));
    set_text(row, "STATE_CLASS", state_name(job));
    set_text(row, "STAND", status_line_of(job));
    set_text(row, "RANKS", std::to_string(ranks_at_once(job)));
    set_text(row, "GPUS", job.gpus());
    set_text(row, "CREATED", age_text(job.create_time(), now));
    set_text(row, "TOOK", time_taken(job, now));
    if (owners) set_text(*row.AddSectionDictionary("OWNED"), "OWNER", job.owner());
    if (job.state() == v1::Job::RUNNING) {
      set_text(*row.AddSectionDictionary("PROGRESS"), "SHARE",
               std::to_string(percent_of(job.progress())));
    }
  }
  return expand_template(job_table_template(), "job_table.html", dictionary);
}

/// A choice of the list's state filter.
struct StateChoice {
  std::string value;  ///< value in the page's URL; empty: all
  std::string label;
  std::vector<v1::Job::State> states;
};

const std::vector<StateChoice>& state_choices() {
  using Job = v1::Job;
  static const std::vector<StateChoice> choices = {
      {"", "all", {}},
      {"queued", "queued", {Job::QUEUED}},
      {"running", "running", {Job::STARTING, Job::RUNNING}},
      {"ended", "ended", {Job::SUCCEEDED, Job::FAILED, Job::CANCELLED}},
      {"succeeded", "succeeded", {Job::SUCCEEDED}},
      {"failed", "failed", {Job::FAILED}},
      {"cancelled", "cancelled", {Job::CANCELLED}}};
  return choices;
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

v1::ListJobsRequest JobsPageQuery::request() const {
  const auto choice = std::ranges::find(state_choices(), state, &StateChoice::value);
  if (choice == state_choices().end()) {
    throw invalid_argument("state", in_quotes(state) + " is not the state of a job");
  }
  // The pages send printable values only.
  if (!is_printable(name)) throw invalid_argument("name", in_quotes(name) + " is not printable");
  if (!is_printable(owner)) throw invalid_argument("owner", in_quotes(owner) + " is not printable");
  v1::ListJobsRequest request;
  request.set_page_size(kJobsOnPage);
  request.set_page_token(page);
  request.mutable_filter()->set_name(name);
  if (!owner.empty()) request.mutable_filter()->set_owner(owner);
  for (const v1::Job::State each : choice->states) request.mutable_filter()->add_states(each);
  return request;
}

std::string jobs_page_html(const JobsPageQuery& query, const v1::ListJobsResponse& found,
                           std::time_t now) {
  TemplateDictionary dictionary("jobs");
  set_text(dictionary, "STATE_VALUE", query.state);
  set_text(dictionary, "NAME", query.name);
  set_text(dictionary, "OWNER", query.owner);
  for (const StateChoice& choice : state_choices()) {
    TemplateDictionary& option = *dictionary.AddSectionDictionary("STATE");
    set_text(option, "VALUE", choice.value);
    set_text(option, "LABEL", choice.label);
    if (choice.value == query.state) option.ShowSection("SELECTED");
  }
  const std::string heading = query.page.empty() ? "Newest first" : "Older jobs";
  set_embedded(
      dictionary, "TABLE",
      job_table_html({heading, {found.jobs().begin(), found.jobs().end()}, "No such job."}, now));
  if (!query.page.empty()) dictionary.ShowSection("NEWEST");
  if (!found.next_page_token().empty()) {
    set_text(*dictionary.AddSectionDictionary("OLDER"), "PAGE", found.next_page_token());
  }
  return expand_template(jobs_template(), "jobs.html", dictionary);
}

std::string queue_page_html(const QueuePageView& view, std::time_t now) {
  TemplateDictionary dictionary("queue");
  const v1::ServerInfo& server = view.server;
  const PageAction action =
      server.drained()
          ? PageAction{"/server/resume", "Start jobs again", "Let jobs be started",
                       "The server is drained. It will start queued jobs again."}
          : PageAction{"/server/drain", "Drain", "Drain the server",
                       "No more jobs are started, even after a restart of the server. Running "
                       "jobs continue, and new ones are queued."};
  set_embedded(dictionary, "ACTIONS", actions_html({action}, view.form_token));

  std::vector<std::string> warnings = view.faults;
  if (server.drained()) {
    warnings.emplace_back("The server is drained: running jobs continue, queued ones wait.");
  } else if (!server.paused().empty()) {
    warnings.push_back(server.paused());
  }
  if (!warnings.empty()) {
    TemplateDictionary& section = *dictionary.AddSectionDictionary("WARNINGS");
    for (const std::string& warning : warnings) {
      set_text(*section.AddSectionDictionary("WARNING"), "TEXT", warning);
    }
  }

  const v1::ResourceAmounts& used = server.used();
  const v1::ResourceAmounts& capacity = server.capacity();
  add_tile(dictionary, "Running", count_text(server.running_jobs()));
  add_tile(dictionary, "Queued", count_text(server.queued_jobs()));
  add_use(dictionary, "Ranks", used.ranks(), capacity.ranks(), count_text);
  add_use(dictionary, "GPUs", used.gpus(), capacity.gpus(), count_text);
  add_use(dictionary, "Memory", used.memory_bytes(), capacity.memory_bytes(), human_bytes);
  add_tile(dictionary, "Launchers", listed({server.launchers().begin(), server.launchers().end()}));

  const auto left = server.queued_jobs() - static_cast<int>(view.queued.size());
  JobTableView queued{"Queued", view.queued, "No job waits."};
  if (left > 0) {
    queued.all_state = "queued";
    queued.all_text = "and " + counted(left, "more job");
  }
  set_embedded(
      dictionary, "TABLES",
      job_table_html({"Running", view.launched, "No job runs."}, now) +
          job_table_html(queued, now) +
          job_table_html({"Ended", view.ended, "No job has ended yet.", "ended", "All ended jobs"},
                         now));
  return expand_template(queue_template(), "queue.html", dictionary);
}

}  // namespace dotresize
