#include "client/display/progress_display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/process/environment.h"
#include "base/text/human_text.h"
#include "job/status/job_rows.h"

namespace dotresize {

using Clock = std::chrono::steady_clock;

ProgressDisplay::ProgressDisplay() {
  const std::string kind = environment_variable("TERM");
  redraws_ = ::isatty(STDERR_FILENO) == 1 && !kind.empty() && kind != "dumb";
  // The first of these that is set decides, like in setlocale(3).
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (locale.empty()) locale = environment_variable(name);
  }
  style_.unicode =
      locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  style_.colour = environment_variable("NO_COLOR").empty();
}

void ProgressDisplay::show(const v1::Progress& progress) {
  const Clock::time_point now = Clock::now();
  if (!redraws_) {
    constexpr std::chrono::seconds kInterval{10};
    if (progress.phase().empty()) return;  // first heartbeat
    if (progress.phase() == progress_.phase() && now < progress_time_ + kInterval) return;
    print(render_plain(progress));
  }
  event_.clear();
  progress_ = progress;
  progress_time_ = now;
  begun_ = redraws_;
  tick();
}

void ProgressDisplay::show_event(const std::string& text) {
  if (!redraws_) return print(text);
  event_ = text;
  begun_ = true;
  tick();
}

void ProgressDisplay::print(const std::string& line) {
  if (redraws_) {
    draw(line);
  } else {
    std::cerr << line;
  }
  std::cerr << "\n" << std::flush;
  shown_.clear();
}

void ProgressDisplay::clear() {
  draw("");
  begun_ = false;
}

void ProgressDisplay::tick() {
  if (!begun_) return;
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0;
  style_.columns = known ? size.ws_col : 80;
  if (!event_.empty()) return draw(event_.substr(0, static_cast<size_t>(style_.columns) - 1));
  v1::Progress now = progress_;
  const std::chrono::duration<double> since = Clock::now() - progress_time_;
  if (now.eta_s() >= 0.0) now.set_eta_s(std::max(0.0, now.eta_s() - since.count()));
  draw(render_bar(now, style_));
}

/// Draws with one write per change: clearing the line first would make it flicker.
void ProgressDisplay::draw(const std::string& line) {
  if (line == shown_) return;
  std::cerr << "\r" + line + "\x1b[K" << std::flush;
  shown_ = line;
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
        style.colour ? fmt::format("\x1b[36m{}\x1b[0m\x1b[2m{}\x1b[0m", done, rest) : done + rest;
    const std::string line = fmt::format("{}  {}  {}{}", phase, bar, share, tail);
    return line.substr(0, line.find_last_not_of(' ') + 1);
  }
  const std::string shortest = render_share(progress) + " " + phase_name(progress);
  return shortest.substr(0, std::max(0, available));
}

}  // namespace dotresize
