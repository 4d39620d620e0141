#pragma once

#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// What is done of the whole job, from 0 to 1, whatever the heartbeat has said.
double fraction_of(const v1::Progress& progress);

/// The same in per cent, rounded down.
int percent_of(const v1::Progress& progress);

/// And as text: "58 %".
std::string render_share(const v1::Progress& progress);

/// "calibrate"; "starting" before the first heartbeat.
std::string phase_name(const v1::Progress& progress);

/// What is known beside phase and share; empty if it is not.
struct ProgressDetails {
  std::string junctions;  ///< "junctions 7/13"; of a transfer "3.2 GiB of 7.1 GiB"
  std::string rate;       ///< "12.3k tok/s"; "112 MiB/s"
  std::string eta;        ///< "ETA 0:42"
};
ProgressDetails details_of(const v1::Progress& progress);

/// Each of the parts that are not empty after a separator.
std::string joined(const std::vector<std::string>& parts, const std::string& separator);

/// All of it as plain text: "solve 58 %, junctions 7/13, 12.3k tok/s, ETA 0:42".
std::string render_plain(const v1::Progress& progress);

}  // namespace dotresize
