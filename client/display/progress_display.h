#pragma once

#include <memory>
#include <string>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Shows the progress of one job on stderr. Not thread-safe.
class ProgressDisplay {
 public:
  virtual ~ProgressDisplay() = default;
  /// Shows the job's current progress.
  virtual void show(const v1::Progress& progress) = 0;
  /// Shows a short-lived event: on a terminal in place of progress, until show() is called; else as
  /// a line.
  virtual void show_event(const std::string& text) = 0;
  /// Prints a permanent line; the progress continues below it.
  virtual void print(const std::string& line) = 0;
  /// Removes the redrawn line so that others can write to the terminal. The next show() brings it
  /// back.
  virtual void clear() = 0;
  /// Redraws; to be called several times a second.
  virtual void tick() = 0;
};

/// Creates the display for stderr. On a terminal, a line at the bottom is redrawn in place.
/// Otherwise, for logs, it prints a line for each phase and every ten seconds in between.
std::unique_ptr<ProgressDisplay> progress_display();

struct BarStyle {
  int columns = 80;      ///< the line is shorter than this, so terminals do not wrap it
  bool unicode = false;  ///< false: ASCII only
  bool colour = false;
};

/// Renders one line without a newline: phase, bar, percent, junctions, tok/s, ETA. Parts that do
/// not fit are left out: tok/s first, then junctions, ETA, and the bar.
std::string render_bar(const v1::Progress& progress, const BarStyle& style);

}  // namespace dotresize
