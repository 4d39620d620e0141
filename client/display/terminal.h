#pragma once

#include <csignal>

namespace dotresize {

/// Capabilities of stderr.
struct Terminal {
  bool interactive = false;  ///< stderr is a terminal that can redraw a line
  bool unicode = false;      ///< the locale is UTF-8
  bool colour = false;       ///< `interactive`, and NO_COLOR is not set
};

/// Determines the capabilities from stderr, TERM, NO_COLOR and the locale's variables.
Terminal stderr_terminal();

/// Exit code that a shell expects of a program stopped by SIGINT.
inline constexpr int kExitInterrupted = 130;

/// Current columns of stderr's terminal; 80 if unknown.
int stderr_columns();

/// Scope in which the first SIGINT is only recorded; a second one ends the program as usual. At
/// most one instance at a time.
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
