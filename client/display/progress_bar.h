#pragma once

#include <string>

#include "job/status/progress_text.h"

namespace dotresize {

struct BarStyle {
  int columns = 80;      ///< the line is shorter than this, so terminals do not wrap it
  bool unicode = false;  ///< false: ASCII only
  bool colour = false;
};

/// Renders one line without a newline: phase, bar, percent, junctions, tok/s, ETA. Parts that do
/// not fit are left out: tok/s first, then junctions, ETA, and the bar.
std::string render_bar(const v1::Progress& progress, const BarStyle& style);

}  // namespace dotresize
