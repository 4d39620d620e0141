#include "client/display/progress_display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "base/process/environment.h"
#include "base/text/human_text.h"
#include "job/status/job_rows.h"

namespace dotresize {
namespace {

using Clock = std::chrono::steady_clock;

class BarDisplay final : public ProgressDisplay {
 public:
  BarDisplay(bool unicode, bool colour) : unicode_(unicode), colour_(colour) {}
  ~BarDisplay() override { clear(); }

  void show(const v1::Progress& progress) override {
    event_.clear();
    progress_ = progress;
    progress_time_ = Clock::now();
    begun_ = true;
    tick();
  }

  void show_event(const std::string& text) override {
    event_ = text;
    begun_ = true;
    tick();
  }

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
    winsize size{};
    const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0;
    const int columns = known ? size.ws_col : 80;
    if (!event_.empty()) return draw(event_.substr(0, static_cast<size_t>(columns) - 1));
    v1::Progress now = progress_;
    const std::chrono::duration<double> since = Clock::now() - progress_time_;
    if (now.eta_s() >= 0.0) now.set_eta_s(std::max(0.0, now.eta_s() - since.count()));
    draw(render_bar(now, {columns, unicode_, colour_}));
  }

 private:
  /// Draws with one write per change: clearing the line first would make it flicker.
  void draw(const std::string& line) {
    if (line == shown_) return;
    std::cerr << "\r" + line + "\x1b[K" << std::flush;
    shown_ = line;
  }

  const bool unicode_;
  const bool colour_;
  v1::Progress progress_;
  Clock::time_point progress_time_;
  std::string event_;  ///< shown instead of a bar
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
  const std::string kind = environment_variable("TERM");
  const bool redraws_lines = ::isatty(STDERR_FILENO) == 1 && !kind.empty() && kind != "dumb";
  if (!redraws_lines) return std::make_unique<LineDisplay>();
  // The first of these that is set decides, like in setlocale(3).
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (locale.empty()) locale = environment_variable(name);
  }
  const bool unicode =
      locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  return std::make_unique<BarDisplay>(unicode, environment_variable("NO_COLOR").empty());
}

std::string render_bar(const v1::Progress& progress, const BarStyle& style) {
  constexpr int kShortestBar = 8;
  constexpr int kMaxBar = 40;
  constexpr size_t kPhaseWidth = sizeof("evaluate_compressed") - 1;
  std::string phase = phase_name(progress);
  phase.resize(std::max(phase.size(), kPhaseWidth), ' ');
  std::string share = render_share(progress);
  share.insert(0, std::max<int>(0, 5 - display_width(share)), ' ');
  // Each field has its maximal width, so that the bar's length does not change.
  ProgressDetails details = details_of(progress);
  const std::string all_done =
      fmt::format("junctions {0}/{0}", std::max(0, progress.junctions_total()));
  const size_t junctions_width = progress.junctions_total() > 0 ? all_done.size() : 0;
  details = {fmt::format("{:<{}}", details.junctions, junctions_width),
             fmt::format("{:>11}", details.rate), fmt::format("{:<9}", details.eta)};
  const int available = style.columns - 1;
  for (const std::string& tail : {joined({details.junctions, details.rate, details.eta}, "  "),
                                  joined({details.junctions, details.eta}, "  "),
                                  joined({details.eta}, "  "), std::string()}) {
    const int taken = display_width(fmt::format("{}    {}{}", phase, share, tail));
    const int width = std::min(kMaxBar, available - taken);
    if (width < kShortestBar) continue;
    const int full = static_cast<int>(fraction_of(progress) * width);
    std::string done, rest;
    for (int i = 0; i < full; ++i) done += style.unicode ? "━" : "#";
    for (int i = full; i < width; ++i) rest += style.unicode ? "─" : "-";
    const std::string bar =
        style.colour ? "\x1b[36m" + done + "\x1b[0m\x1b[2m" + rest + "\x1b[0m" : done + rest;
    const std::string line = fmt::format("{}  {}  {}{}", phase, bar, share, tail);
    return line.substr(0, line.find_last_not_of(' ') + 1);
  }
  const std::string shortest = render_share(progress) + " " + phase_name(progress);
  return shortest.substr(0, std::max(0, available));
}

}  // namespace dotresize
