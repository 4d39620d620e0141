#pragma once

#include <string>

#include "job/status/progress_text.h"

namespace dotresize {

struct BarStyle {
  int columns = 80;      ///< the line is shorter than this, so that no terminal wraps it
  bool unicode = false;  ///< else ASCII alone
  bool colour = false;
};

/// One line without a newline: phase, bar, percent, junctions, tok/s, ETA. What does not fit is
/// left out, tok/s first, then junctions, then the ETA, then the bar.
std::string render_bar(const v1::Progress& progress, const BarStyle& style);

}  // namespace dotresize
