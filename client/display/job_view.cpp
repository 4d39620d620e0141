#include "client/display/job_view.h"

#include <fmt/format.h>

#include <iostream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/process/program.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "client/display/progress_display.h"
#include "job/report/report_tables.h"
#include "job/status/job_rows.h"

namespace dotresize {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string result_table(const v1::JobResult& result) {
  const auto report_of = [](const v1::ModelSize& size) {
    ModelReport model{size.parameters(), size.bytes(), std::nullopt};
    if (size.perplexity() > 0.0) model.perplexity = size.perplexity();
    if (size.has_kl()) model.kl = size.kl();
    if (size.has_agreement()) model.agreement = size.agreement();
    return model;
  };
  return dotresize::result_table(report_of(result.dense()), report_of(result.compressed()));
}

template <class Warnings>
std::string warnings_text(const Warnings& warnings) {
  std::string text;
  for (const std::string& warning : warnings) text += "warning: " + printable(warning) + "\n";
  return text;
}

constexpr char kBack[] = "the server is back";

/// State of a job as its line shows it.
struct StatusLine {
  std::string state;
  std::string detail;  ///< phase or error; empty: none
  int attempt = 0;

  bool operator==(const StatusLine&) const = default;
};

StatusLine stand_as(const v1::Job& job, const std::string& state) {
  StatusLine made{state, "", job.attempt()};
  if (job.state() == v1::Job::RUNNING) made.detail = printable(phase_name(job.progress()));
  if (job.state() == v1::Job::FAILED) made.detail = printable(job.error().code());
  return made;
}

/// Lines of id, state, detail, share of the work and name.
constexpr char kRow[] = "{:<18}  {:<10}  {:<19}  {:>5}  {}\n";

struct JobsView {
  struct Known {
    StatusLine stand;
    int listing = 0;  ///< number of the last listing when last seen
    std::string name;
  };

  const int limit;
  std::map<std::string, Known> known_jobs = {};  ///< keyed by job id
  std::vector<v1::Job> first = {};               ///< jobs of the incomplete first listing
  std::vector<v1::JobChange> later = {};         ///< changes during that listing
  int listing_number = 0;
  bool synced = false;
  bool away = false;

  void take(const v1::JobChange& change) {
    const v1::Job& job = change.job();
    const auto print = [](const v1::Job& shown, const StatusLine& stand) {
      std::cout << fmt::format(kRow, printable(shown.id()), stand.state, stand.detail,
                               done_text(shown), printable(shown.spec().name()))
                << std::flush;
    };
    const auto show = [&] {
      StatusLine now = stand_as(job, state_name(job));
      Known& known = known_jobs[job.id()];
      if (known.stand != now) print(job, now);
      known = {std::move(now), listing_number, job.spec().name()};
    };
    switch (change.kind()) {
      case v1::JobChange::LISTING:
        ++listing_number;
        if (synced) return;
        known_jobs.clear();
        first.clear();
        later.clear();
        return;
      case v1::JobChange::LISTED:
        if (synced) return show();
        if (std::ssize(first) < limit) first.push_back(job);
        known_jobs[job.id()] = {stand_as(job, state_name(job)), listing_number, job.spec().name()};
        return;
      case v1::JobChange::SYNCED:
        if (synced) {
          std::erase_if(known_jobs, [this](const auto& entry) {
            const auto& [id, known] = entry;
            if (known.listing == listing_number) return false;
            std::cout << fmt::format(kRow, printable(id), "gone", "", "", printable(known.name))
                      << std::flush;
            return true;
          });
          return;
        }
        synced = true;
        std::cout << fmt::format(kRow, "ID", "STATE", "PHASE OR ERROR", "DONE", "NAME")
                  << std::flush;
        for (auto each = first.rbegin(); each != first.rend(); ++each) {
          print(*each, stand_as(*each, state_name(*each)));
        }
        first.clear();
        for (const v1::JobChange& missed : std::exchange(later, {})) take(missed);
        return;
      case v1::JobChange::CHANGED:
      case v1::JobChange::LEFT:
      case v1::JobChange::DELETED:
        if (!synced) return later.push_back(change);
        if (change.kind() == v1::JobChange::CHANGED) return show();
        print(job,
              stand_as(job, change.kind() == v1::JobChange::DELETED ? "deleted" : state_name(job)));
        known_jobs.erase(job.id());
        return;
      default:  // sent by a newer server
        return;
    }
  }
};

}  // namespace

int exit_code_for(const v1::Job& job) {
  switch (job.state()) {
    case v1::Job::SUCCEEDED:
      return kExitOk;
    case v1::Job::CANCELLED:
      return kExitCancelled;
    default:
      return job.error().code() == kInvalidInput ? kExitBadData : kExitJobFailed;
  }
}

std::string job_text(const v1::Job& job, std::time_t now) {
  std::string text = format_table(job_rows(job, now), {Align::kLeft, Align::kLeft});
  if (!job.has_result() || job.has_sweep()) return text;  // a sweep has many results
  const v1::JobResult& result = job.result();
  return text + '\n' + result_table(result) + warnings_text(result.warnings());
}

std::string server_text(const v1::ServerInfo& server) {
  const auto of = [](const std::string& used, const std::string& capacity) {
    return used + " of " + capacity;
  };
  const v1::ResourceAmounts& used = server.used();
  const v1::ResourceAmounts& capacity = server.capacity();
  Rows rows = {
      {"version", printable(server.version())},
      {"jobs", std::to_string(server.running_jobs()) + " running, " +
                   std::to_string(server.queued_jobs()) + " queued"},
      {"ranks", of(std::to_string(used.ranks()), std::to_string(capacity.ranks()))},
      {"GPUs", of(std::to_string(used.gpus()), std::to_string(capacity.gpus()))},
      {"memory", of(human_bytes(used.memory_bytes()), human_bytes(capacity.memory_bytes()))},
      {"drained", server.drained() ? "yes" : "no"}};
  const std::vector<std::string> launchers(server.launchers().begin(), server.launchers().end());
  if (!launchers.empty()) rows.push_back({"launchers", printable(listed(launchers))});
  if (!server.paused().empty()) rows.push_back({"starts no job", printable(server.paused())});
  return format_table(rows, {Align::kLeft, Align::kLeft});
}

std::string done_text(const v1::Job& job) {
  if (job.state() == v1::Job::SUCCEEDED) return "100 %";
  return job.has_progress() ? render_share(job.progress()) : "";
}

std::string job_table(const std::vector<v1::Job>& jobs, std::time_t now) {
  if (jobs.empty()) return "no jobs\n";
  Rows rows = {{"ID", "NAME", "STATE", "DONE", "CREATED", "TOOK"}};
  for (const v1::Job& job : jobs) {
    rows.push_back({printable(job.id()), printable(job.spec().name()), state_name(job),
                    done_text(job), age_text(job.create_time(), now), time_taken(job, now)});
  }
  return format_table(rows, {Align::kLeft, Align::kLeft, Align::kLeft, Align::kRight, Align::kRight,
                             Align::kRight});
}

std::string outcome_text(const v1::Job& job) {
  if (job.state() == v1::Job::CANCELLED) return "the job was cancelled\n";
  if (job.state() == v1::Job::FAILED) return "the job failed: " + error_text(job.error()) + "\n";
  const v1::JobResult& result = job.result();
  return result_table(result) + "\n" +
         format_table({{"output", printable(result.output_path())},
                       {"took", format_duration(result.wall_time_s())}},
                      {Align::kLeft, Align::kLeft}) +
         warnings_text(result.warnings());
}

std::string report_text(const ReportSummary& summary) {
  return format_table({{"name", printable(summary.name)},
                       {"method", printable(summary.method)},
                       {"target", printable(summary.target)},
                       {"width", width_text(summary)},
                       {"took", format_duration(summary.wall_time_s)}},
                      {Align::kLeft, Align::kLeft}) +
         "\n" + result_table(summary.dense, summary.compressed) + warnings_text(summary.warnings);
}

WatchObserver progress_view() {
  struct View {
    ProgressDisplay display;
    std::string waiting_for;  ///< set while the job is queued
    bool introduced = false;
    bool away = false;
  };
  const auto view = std::make_shared<View>();
  const auto connected = [view](const v1::Job& job) {
    if (!std::exchange(view->introduced, true)) {
      view->display.print("job " + printable(job.id()) + "  " + printable(job.spec().name()));
    }
    if (std::exchange(view->away, false)) view->display.print(kBack);
    if (job.state() == v1::Job::QUEUED) view->waiting_for = printable(job.waiting_for());
  };
  const auto take = [view](const v1::Event& event) {
    if (!event.has_state_change()) return view->display.show(event.progress());
    const v1::Event::StateChange& change = event.state_change();
    std::string line = state_name(change.state());
    if (change.attempt() > 1) line += " (attempt " + std::to_string(change.attempt()) + ")";
    if (!change.reason().empty()) {
      view->display.print(line + ": " + printable_lines(change.reason()));
    } else if (change.state() == v1::Job::QUEUED && !view->waiting_for.empty()) {
      view->display.show_event(line + ", waiting for " + view->waiting_for);
    } else {
      view->display.show_event(line);
    }
    if (change.state() == v1::Job::RUNNING) view->display.show(v1::Progress());
  };
  const auto disconnected = [view] {
    if (!std::exchange(view->away, true)) view->display.print(kAway);
  };
  return {connected, take, disconnected, [view] { view->display.tick(); }};
}

JobsObserver jobs_view(int limit) {
  const auto view = std::make_shared<JobsView>(JobsView{.limit = limit});
  return {.connected =
              [view] {
                if (std::exchange(view->away, false)) std::cerr << kBack << std::endl;
              },
          .change = [view](const v1::JobChange& change) { view->take(change); },
          .disconnected =
              [view] {
                if (!std::exchange(view->away, true)) std::cerr << kAway << std::endl;
              }};
}

}  // namespace dotresize
