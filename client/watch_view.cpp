#include "client/watch_view.h"

#include <iostream>

#include "base/printable.h"
#include "client/job_text.h"
#include "client/json_output.h"
#include "client/progress_bar.h"
#include "client/terminal.h"

namespace dotresize {
namespace {

using Clock = std::chrono::steady_clock;

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

class BarView : public WatchObserver {
 public:
  explicit BarView(const Terminal& terminal) : terminal_(terminal) {}
  ~BarView() override { show(""); }

  void connected(const v1::Job& job) override {
    if (!introduced_) print_above(introduction(job));
    introduced_ = true;
    status_.clear();
    if (job.state() == v1::Job::QUEUED) status_ = "queued: waiting for free ranks";
    draw();
  }

  void event(const v1::Event& event) override {
    if (event.has_state_change()) {
      const v1::Event::StateChange& change = event.state_change();
      status_ = change.state() == v1::Job::RUNNING ? "" : state_line(change);
      progress_.Clear();
      if (!change.reason().empty()) print_above(state_line(change));
    } else {
      status_.clear();
      progress_ = event.progress();
    }
    progress_time_ = Clock::now();
    draw();
  }

  void disconnected(const std::string&) override {
    status_ = kAway;
    draw();
  }

  void tick() override { draw(); }

 private:
  void draw() {
    const int columns = stderr_columns();
    if (!status_.empty()) return show(status_.substr(0, columns - 1));
    v1::Progress now = progress_;
    const std::chrono::duration<double> since = Clock::now() - progress_time_;
    if (now.eta_s() >= 0.0) now.set_eta_s(std::max(0.0, now.eta_s() - since.count()));
    show(render_bar(now, {columns, terminal_.unicode, terminal_.colour}));
  }

  /// One write per change: a line that is cleared first and drawn later flickers.
  void show(const std::string& line) {
    if (line == shown_) return;
    std::cerr << "\r" + line + "\x1b[K" << std::flush;
    shown_ = line;
  }

  void print_above(const std::string& line) {
    show(line);
    std::cerr << "\n";
    shown_.clear();
  }

  Terminal terminal_;
  v1::Progress progress_;
  Clock::time_point progress_time_ = Clock::now();
  std::string status_;  ///< shown instead of a bar
  std::string shown_;
  bool introduced_ = false;
};

class LineView : public WatchObserver {
 public:
  void connected(const v1::Job& job) override {
    if (!introduced_) std::cerr << introduction(job) << std::endl;
    if (away_) std::cerr << "the server is back" << std::endl;
    introduced_ = true;
    away_ = false;
  }

  void event(const v1::Event& event) override {
    if (event.has_state_change()) {
      std::cerr << state_line(event.state_change()) << std::endl;
      return;
    }
    constexpr std::chrono::seconds kInterval{10};
    const v1::Progress& progress = event.progress();
    if (progress.phase().empty()) return;  // the first heartbeat
    if (progress.phase() == phase_ && Clock::now() < printed_ + kInterval) return;
    phase_ = progress.phase();
    printed_ = Clock::now();
    std::cerr << render_plain(progress) << std::endl;
  }

  void disconnected(const std::string&) override {
    if (!away_) std::cerr << kAway << std::endl;
    away_ = true;
  }

  void tick() override {}

 private:
  std::string phase_;
  Clock::time_point printed_;
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

std::unique_ptr<WatchObserver> progress_view() {
  const Terminal terminal = stderr_terminal();
  if (terminal.interactive) return std::make_unique<BarView>(terminal);
  return std::make_unique<LineView>();
}

std::unique_ptr<WatchObserver> json_view() { return std::make_unique<JsonView>(); }

}  // namespace dotresize
