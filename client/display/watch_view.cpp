#include "client/display/watch_view.h"

#include <fmt/format.h>

#include <iostream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/text/printable.h"
#include "client/display/job_text.h"
#include "client/display/progress_display.h"
#include "job/status/job_rows.h"

namespace dotresize {
namespace {

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
