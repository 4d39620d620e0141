#include "server/web/job_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/status/job_rows.h"
#include "job/status/progress_text.h"
#include "server/store/resources.h"
#include "server/web/templates/html_template.h"
#include "server/web/web_files.h"

namespace dotresize {
namespace {

using ctemplate::TemplateDictionary;

constexpr size_t kMaxReason = 200;

std::string stand_in_queue(const v1::Job& job) {
  if (!job.has_queue_position()) return "";
  std::string text =
      fmt::format("number {}; waits for {}", job.queue_position(), job.waiting_for());
  if (job.has_retry_time()) text += ", not before " + date_text(job.retry_time());
  return text;
}

std::string stand_of_result(const v1::JobResult& result) {
  const v1::ModelSize& dense = result.dense();
  const v1::ModelSize& compressed = result.compressed();
  if (dense.bytes() == 0 || compressed.bytes() == 0) return "";  // a sweep's result
  std::string text =
      format_percent(static_cast<double>(compressed.bytes()) / static_cast<double>(dense.bytes())) +
      " of the bytes";
  if (dense.perplexity() > 0 && compressed.perplexity() > 0) {
    text +=
        fmt::format(", perplexity {} in place of {}", format_perplexity(compressed.perplexity()),
                    format_perplexity(dense.perplexity()));
  }
  return text;
}

void add_job(TemplateDictionary& table, const v1::Job& job, bool owners, std::time_t now) {
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

}  // namespace

std::string status_line_of(const v1::Job& job) {
  switch (job.state()) {
    case v1::Job::QUEUED:
      return stand_in_queue(job);
    case v1::Job::STARTING:
      return job.launcher_status();
    case v1::Job::RUNNING:
      return render_plain(job.progress());
    case v1::Job::SUCCEEDED:
      return job.has_sweep() ? counted(job.sweep_size().jobs(), "job") + " of a sweep"
                             : stand_of_result(job.result());
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
  } else {
    TemplateDictionary& table = *dictionary.AddSectionDictionary("SOME");
    const bool owners = std::ranges::any_of(view.jobs, &v1::Job::has_owner);
    if (owners) table.ShowSection("OWNERS");
    for (const v1::Job& job : view.jobs) add_job(table, job, owners, now);
  }
  return expand_template(job_table_template(), "job_table.html", dictionary);
}

}  // namespace dotresize
