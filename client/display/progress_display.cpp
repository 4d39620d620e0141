#include "client/display/progress_display.h"

#include <algorithm>
#include <chrono>
#include <iostream>

#include "client/display/progress_bar.h"
#include "client/display/terminal.h"

namespace dotresize {
namespace {

using Clock = std::chrono::steady_clock;

class BarDisplay final : public ProgressDisplay {
 public:
  explicit BarDisplay(const Terminal& terminal) : terminal_(terminal) {}
  ~BarDisplay() override { clear(); }

  void show(const v1::Progress& progress) override {
    status_.clear();
    progress_ = progress;
    progress_time_ = Clock::now();
    begun_ = true;
    tick();
  }

  void show_status(const std::string& text) override {
    status_ = text;
    begun_ = true;
    tick();
  }

  void show_event(const std::string& text) override { show_status(text); }

  void print(const std::string& line) override {
    draw(line);
    std::cerr << "\n";
    shown_.clear();
  }

  void clear() override {
    draw("");
    begun_ = false;
  }

  void tick() override {
    if (!begun_) return;
    const int columns = stderr_columns();
    if (!status_.empty()) return draw(status_.substr(0, static_cast<size_t>(columns) - 1));
    v1::Progress now = progress_;
    const std::chrono::duration<double> since = Clock::now() - progress_time_;
    if (now.eta_s() >= 0.0) now.set_eta_s(std::max(0.0, now.eta_s() - since.count()));
    draw(render_bar(now, {columns, terminal_.unicode, terminal_.colour}));
  }

 private:
  /// Draws with one write per change: clearing the line first would make it flicker.
  void draw(const std::string& line) {
    if (line == shown_) return;
    std::cerr << "\r" + line + "\x1b[K" << std::flush;
    shown_ = line;
  }

  Terminal terminal_;
  v1::Progress progress_;
  Clock::time_point progress_time_;
  std::string status_;  ///< shown instead of a bar
  std::string shown_;
  bool begun_ = false;  ///< something is to be redrawn
};

class LineDisplay final : public ProgressDisplay {
 public:
  void show(const v1::Progress& progress) override {
    constexpr std::chrono::seconds kInterval{10};
    if (progress.phase().empty()) return;  // first heartbeat
    if (progress.phase() == phase_ && Clock::now() < printed_ + kInterval) return;
    phase_ = progress.phase();
    printed_ = Clock::now();
    print(render_plain(progress));
  }
  void show_status(const std::string&) override {}
  void show_event(const std::string& text) override { print(text); }
  void print(const std::string& line) override { std::cerr << line << std::endl; }
  void clear() override {}
  void tick() override {}

 private:
  std::string phase_;
  Clock::time_point printed_;
};

}  // namespace

std::unique_ptr<ProgressDisplay> progress_display() {
  const Terminal terminal = stderr_terminal();
  if (terminal.interactive) return std::make_unique<BarDisplay>(terminal);
  return std::make_unique<LineDisplay>();
}

}  // namespace dotresize
