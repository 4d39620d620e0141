#include "client/display/watch_view.h"

#include <fmt/format.h>

#include <iostream>
#include <map>
#include <utility>
#include <vector>

#include "base/text/printable.h"
#include "client/display/job_text.h"
#include "client/display/json_output.h"
#include "client/display/progress_display.h"
#include "job/status/job_rows.h"

namespace dotresize {
namespace {

constexpr char kBack[] = "the server is back";
constexpr char kAway[] = "the server is away: waiting for it to come back";

class TextView : public WatchObserver {
 public:
  void connected(const v1::Job& job) override {
    if (!introduced_)
      display_->print("job " + printable(job.id()) + "  " + printable(job.spec().name()));
    if (away_) display_->print(kBack);
    introduced_ = true;
    away_ = false;
    if (job.state() == v1::Job::QUEUED) waiting_for_ = printable(job.waiting_for());
  }

  void event(const v1::Event& event) override {
    if (!event.has_state_change()) return display_->show(event.progress());
    const v1::Event::StateChange& change = event.state_change();
    std::string line = state_name(change.state());
    if (change.attempt() > 1) line += " (attempt " + std::to_string(change.attempt()) + ")";
    if (!change.reason().empty()) {
      display_->print(line + ": " + printable_lines(change.reason()));
    } else if (change.state() == v1::Job::QUEUED && !waiting_for_.empty()) {
      display_->show_event(line + ", waiting for " + waiting_for_);
    } else {
      display_->show_event(line);
    }
    if (change.state() == v1::Job::RUNNING) display_->show(v1::Progress());
  }

  void disconnected(const std::string&) override {
    if (!away_) display_->print(kAway);
    away_ = true;
  }

  void tick() override { display_->tick(); }

 private:
  std::unique_ptr<ProgressDisplay> display_ = progress_display();
  std::string waiting_for_;  ///< set while the job is queued
  bool introduced_ = false;
  bool away_ = false;
};

class JsonView : public WatchObserver {
 public:
  void connected(const v1::Job&) override {}
  void event(const v1::Event& event) override { print_json_line(to_json(event)); }
  void disconnected(const std::string&) override {}
  void tick() override {}
};

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

class JobsTextView : public JobsObserver {
 public:
  explicit JobsTextView(int limit) : limit_(limit) {}

  void connected() override {
    if (away_) std::cerr << kBack << std::endl;
    away_ = false;
  }

  void change(const v1::JobChange& change) override {
    const v1::Job& job = change.job();
    switch (change.kind()) {
      case v1::JobChange::LISTING:
        ++listing_number_;
        if (synced_) return;
        known_.clear();
        first_.clear();
        later_.clear();
        return;
      case v1::JobChange::LISTED:
        if (synced_) return show(job);
        if (std::ssize(first_) < limit_) first_.push_back(job);
        known_[job.id()] = {stand_as(job, state_name(job)), listing_number_, job.spec().name()};
        return;
      case v1::JobChange::SYNCED:
        if (synced_) {
          std::erase_if(known_, [this](const auto& entry) {
            const auto& [id, known] = entry;
            if (known.listing == listing_number_) return false;
            print_line(printable(id), "gone", "", "", printable(known.name));
            return true;
          });
          return;
        }
        synced_ = true;
        print_line("ID", "STATE", "PHASE OR ERROR", "DONE", "NAME");
        for (auto each = first_.rbegin(); each != first_.rend(); ++each) {
          print(*each, stand_as(*each, state_name(*each)));
        }
        first_.clear();
        for (const v1::JobChange& later : std::exchange(later_, {})) this->change(later);
        return;
      case v1::JobChange::CHANGED:
      case v1::JobChange::LEFT:
      case v1::JobChange::DELETED:
        if (!synced_) return later_.push_back(change);
        if (change.kind() == v1::JobChange::CHANGED) return show(job);
        print(job,
              stand_as(job, change.kind() == v1::JobChange::DELETED ? "deleted" : state_name(job)));
        known_.erase(job.id());
        return;
      default:  // sent by a newer server
        return;
    }
  }

  void disconnected() override {
    if (!away_) std::cerr << kAway << std::endl;
    away_ = true;
  }

 private:
  struct Known {
    StatusLine stand;
    int listing = 0;  ///< number of the last listing when last seen
    std::string name;
  };

  static void print_line(const std::string& id, const std::string& state, const std::string& detail,
                         const std::string& done, const std::string& name) {
    std::cout << fmt::format("{:<18}  {:<10}  {:<19}  {:>5}  {}", id, state, detail, done, name)
              << std::endl;
  }

  static void print(const v1::Job& job, const StatusLine& stand) {
    print_line(printable(job.id()), stand.state, stand.detail, done_text(job),
               printable(job.spec().name()));
  }

  void show(const v1::Job& job) {
    StatusLine now = stand_as(job, state_name(job));
    Known& known = known_[job.id()];
    if (known.stand != now) print(job, now);
    known = {std::move(now), listing_number_, job.spec().name()};
  }

  const int limit_;
  std::map<std::string, Known> known_;  ///< keyed by job id
  std::vector<v1::Job> first_;          ///< jobs of the incomplete first listing
  std::vector<v1::JobChange> later_;    ///< changes during that listing
  int listing_number_ = 0;
  bool synced_ = false;
  bool away_ = false;
};

class JobsJsonView : public JobsObserver {
 public:
  void connected() override {}
  void change(const v1::JobChange& change) override { print_json_line(to_json(change)); }
  void disconnected() override {}
};

}  // namespace

std::unique_ptr<JobsObserver> jobs_view(int limit) { return std::make_unique<JobsTextView>(limit); }

std::unique_ptr<JobsObserver> jobs_json_view() { return std::make_unique<JobsJsonView>(); }

std::unique_ptr<WatchObserver> progress_view() { return std::make_unique<TextView>(); }

std::unique_ptr<WatchObserver> json_view() { return std::make_unique<JsonView>(); }

}  // namespace dotresize
