#pragma once

#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Finished fraction of the whole job, clamped to [0, 1]; 0 for NaN.
double fraction_of(const v1::Progress& progress);

/// fraction_of in per cent, rounded down.
int percent_of(const v1::Progress& progress);

/// percent_of as text: "58 %".
std::string render_share(const v1::Progress& progress);

/// Phase such as "calibrate"; "starting" before the first heartbeat.
std::string phase_name(const v1::Progress& progress);

/// Texts beside phase and share; each is empty if unknown.
struct ProgressDetails {
  std::string junctions;  ///< "junctions 7/13"; for a transfer "3.2 GiB of 7.1 GiB"
  std::string rate;       ///< "12.3k tok/s"; for a transfer "112 MiB/s"
  std::string eta;        ///< "ETA 0:42"
};
ProgressDetails details_of(const v1::Progress& progress);

/// Joins the non-empty parts, with a separator before each.
std::string joined(const std::vector<std::string>& parts, const std::string& separator);

/// The whole progress as plain text: "solve 58 %, junctions 7/13, 12.3k tok/s, ETA 0:42".
std::string render_plain(const v1::Progress& progress);

}  // namespace dotresize
