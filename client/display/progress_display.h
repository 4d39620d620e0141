#pragma once

#include <memory>
#include <string>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// The progress of one job on stderr. For one thread.
class ProgressDisplay {
 public:
  virtual ~ProgressDisplay() = default;
  /// How far the job is now.
  virtual void show(const v1::Progress& progress) = 0;
  /// Shown in place of progress, until there is some.
  virtual void show_status(const std::string& text) = 0;
  /// Something that has happened, and is over soon: a status on a terminal, else a line.
  virtual void show_event(const std::string& text) = 0;
  /// A line that stays; what was shown goes on below it.
  virtual void print(const std::string& line) = 0;
  /// Takes away what is redrawn, for somebody else to write. The next show() brings it back.
  virtual void clear() = 0;
  /// Several times a second.
  virtual void tick() = 0;
};

/// A line at the bottom that is redrawn in place if stderr is a terminal; else, for logs, a line
/// for each phase and every ten seconds in between, and none for a status.
std::unique_ptr<ProgressDisplay> progress_display();

}  // namespace dotresize
