#include "server/web/job_lists.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/status/job_rows.h"
#include "server/common/api_error.h"
#include "server/store/resources.h"
#include "server/web/frame.h"

namespace dotresize {
namespace {

using ctemplate::TemplateDictionary;

constexpr size_t kMaxReason = 200;
constexpr int kJobsOnPage = 50;

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

}  // namespace

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
