#include "client/watch_view.h"

#include <iostream>

#include "base/printable.h"
#include "client/job_text.h"
#include "client/json_output.h"
#include "client/progress_display.h"

namespace dotresize {
namespace {

constexpr char kAway[] = "the server is away: waiting for it to come back";

std::string introduction(const v1::Job& job) {
  return "job " + printable(job.id()) + "  " + printable(job.spec().name());
}

std::string state_line(const v1::Event::StateChange& change) {
  std::string line = state_name(change.state());
  if (change.attempt() > 1) line += " (attempt " + std::to_string(change.attempt()) + ")";
  if (!change.reason().empty()) line += ": " + printable_lines(change.reason());
  return line;
}

class TextView : public WatchObserver {
 public:
  void connected(const v1::Job& job) override {
    if (!introduced_) display_->print(introduction(job));
    if (away_) display_->print("the server is back");
    introduced_ = true;
    away_ = false;
    if (job.state() == v1::Job::QUEUED) waiting_for_ = printable(job.waiting_for());
  }

  void event(const v1::Event& event) override {
    if (!event.has_state_change()) return display_->show(event.progress());
    const v1::Event::StateChange& change = event.state_change();
    if (!change.reason().empty()) {
      display_->print(state_line(change));
    } else if (change.state() == v1::Job::QUEUED && !waiting_for_.empty()) {
      display_->show_event(state_line(change) + ", waiting for " + waiting_for_);
    } else {
      display_->show_event(state_line(change));
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
  std::string waiting_for_;  ///< while the job is queued
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

}  // namespace

std::unique_ptr<WatchObserver> progress_view() { return std::make_unique<TextView>(); }

std::unique_ptr<WatchObserver> json_view() { return std::make_unique<JsonView>(); }

}  // namespace dotresize
