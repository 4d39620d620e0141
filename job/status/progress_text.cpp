#include "job/status/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/human_text.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr double kRounding = 1e-9;  // 0.58 * 100 is a little less than 58

}  // namespace

double fraction_of(const v1::Progress& progress) {
  return std::isnan(progress.fraction()) ? 0.0 : std::clamp(progress.fraction(), 0.0, 1.0);
}

int percent_of(const v1::Progress& progress) {
  return static_cast<int>(100.0 * fraction_of(progress) + kRounding);
}

std::string render_share(const v1::Progress& progress) {
  return std::to_string(percent_of(progress)) + " %";
}

std::string phase_name(const v1::Progress& progress) {
  return progress.phase().empty() ? "starting" : printable(progress.phase());
}

ProgressDetails details_of(const v1::Progress& progress) {
  ProgressDetails details;
  if (progress.junctions_total() > 0) {
    details.junctions =
        fmt::format("junctions {}/{}", progress.junctions_done(), progress.junctions_total());
  }
  if (progress.tokens_per_second() > 0.0) {
    details.rate = format_rate(progress.tokens_per_second()) + " tok/s";
  }
  if (progress.bytes_total() > 0) {
    details.junctions = fmt::format("{} of {}", human_bytes(progress.bytes_done()),
                                    human_bytes(progress.bytes_total()));
  }
  if (progress.bytes_per_second() >= 1.0) {
    details.rate = human_bytes(static_cast<int64_t>(progress.bytes_per_second())) + "/s";
  }
  if (progress.eta_s() >= 0.0 && fraction_of(progress) > 0.0) {
    details.eta = "ETA " + format_clock(progress.eta_s());
  }
  return details;
}

std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += separator + part;
  }
  return text;
}

std::string render_plain(const v1::Progress& progress) {
  const ProgressDetails details = details_of(progress);
  return phase_name(progress) + " " + render_share(progress) +
         joined({details.junctions, details.rate, details.eta}, ", ");
}

}  // namespace dotresize
