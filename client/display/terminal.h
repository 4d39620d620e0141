#pragma once

#include <csignal>

namespace dotresize {

/// What stderr can show.
struct Terminal {
  bool interactive = false;  ///< a terminal that can redraw a line
  bool unicode = false;      ///< the locale says UTF-8
  bool colour = false;       ///< interactive, and NO_COLOR is not set
};

/// Looks at stderr, TERM, NO_COLOR and the locale's variables.
Terminal stderr_terminal();

/// What a shell expects of a program that SIGINT stopped.
inline constexpr int kExitInterrupted = 130;

/// Whether stdout is a terminal.
bool stdout_is_terminal();

/// Columns of stderr's terminal now; 80 if it does not say.
int stderr_columns();

/// While it lives, the first SIGINT is only remembered; a second one ends the program as usual.
/// At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;

 private:
  struct sigaction previous_ {};
};

}  // namespace dotresize
