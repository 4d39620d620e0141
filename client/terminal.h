#pragma once

namespace dotresize {

/// What stderr can show.
struct Terminal {
  bool interactive = false;  ///< a terminal that can redraw a line
  bool unicode = false;      ///< the locale says UTF-8
  bool colour = false;       ///< interactive, and NO_COLOR is not set
};

/// Looks at stderr, TERM, NO_COLOR and the locale's variables.
Terminal stderr_terminal();

/// Columns of stderr's terminal now; 80 if it does not say.
int stderr_columns();

}  // namespace dotresize
