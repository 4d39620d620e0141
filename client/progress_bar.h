#pragma once

#include <string>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

struct BarStyle {
  int columns = 80;      ///< the line is shorter than this, so that no terminal wraps it
  bool unicode = false;  ///< else ASCII alone
  bool colour = false;
};

/// One line without a newline: phase, bar, percent, junctions, tok/s, ETA. What does not fit is
/// left out, tok/s first, then junctions, then the ETA, then the bar.
std::string render_bar(const v1::Progress& progress, const BarStyle& style);

/// What is done of the whole job, rounded down: "58 %".
std::string render_share(const v1::Progress& progress);

/// The bar's facts as plain text for a log: "solve 58 %, junctions 7/13, 12.3k tok/s, ETA 0:42".
std::string render_plain(const v1::Progress& progress);

}  // namespace dotresize
