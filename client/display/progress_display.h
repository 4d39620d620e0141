#pragma once

#include <chrono>
#include <string>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

struct BarStyle {
  int columns = 80;      ///< the line is shorter than this, so terminals do not wrap it
  bool unicode = false;  ///< false: ASCII only
  bool colour = false;
};

inline constexpr char kAway[] = "the server is away: waiting for it to come back";

/// Shows the progress of one job on stderr. On a terminal, a line at the bottom is redrawn in
/// place. Otherwise, for logs, there is a line for each phase and every ten seconds in between. Not
/// thread-safe.
class ProgressDisplay {
 public:
  ProgressDisplay();
  ~ProgressDisplay() { clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// Shows the job's current progress.
  void show(const v1::Progress& progress);
  /// Shows a short-lived event: on a terminal in place of progress, until show() is called; else as
  /// a line.
  void show_event(const std::string& text);
  /// Prints a permanent line; the progress continues below it.
  void print(const std::string& line);
  /// Removes the redrawn line so that others can write to the terminal. The next show() brings it
  /// back.
  void clear();
  /// Redraws; to be called several times a second.
  void tick();

 private:
  void draw(const std::string& line);

  bool redraws_;
  BarStyle style_;
  v1::Progress progress_;  ///< without redrawing: as printed last
  std::chrono::steady_clock::time_point progress_time_;
  std::string event_;   ///< shown instead of a bar
  std::string shown_;   ///< redrawn line on the terminal
  bool begun_ = false;  ///< something is to be redrawn
};

/// Renders one line without a newline: phase, bar, percent, junctions, tok/s, ETA. Parts that do
/// not fit are left out: tok/s first, then junctions, ETA, and the bar.
std::string render_bar(const v1::Progress& progress, const BarStyle& style);

}  // namespace dotresize
