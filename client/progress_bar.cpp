#include "client/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/human_text.h"
#include "base/printable.h"

namespace dotresize {
namespace {

constexpr int kShortestBar = 8;
constexpr int kMaxBar = 40;
constexpr double kRounding = 1e-9;  // 0.58 * 100 is a little less than 58
constexpr size_t kPhaseWidth = sizeof("evaluate_compressed") - 1;

double fraction_of(const v1::Progress& progress) {
  return std::isnan(progress.fraction()) ? 0.0 : std::clamp(progress.fraction(), 0.0, 1.0);
}

std::string phase_name(const v1::Progress& progress) {
  return progress.phase().empty() ? "starting" : printable(progress.phase());
}

struct Details {
  std::string junctions, rate, eta;
};

Details details_of(const v1::Progress& progress) {
  Details details;
  if (progress.junctions_total() > 0) {
    details.junctions =
        fmt::format("junctions {}/{}", progress.junctions_done(), progress.junctions_total());
  }
  if (progress.tokens_per_second() > 0.0) {
    details.rate = format_rate(progress.tokens_per_second()) + " tok/s";
  }
  if (progress.eta_s() >= 0.0 && fraction_of(progress) > 0.0) {
    details.eta = "ETA " + format_clock(progress.eta_s());
  }
  return details;
}

/// Each field as wide as it may get, so that the bar keeps its length from line to line.
Details padded(const v1::Progress& progress) {
  const Details details = details_of(progress);
  const std::string all_done =
      fmt::format("junctions {0}/{0}", std::max(0, progress.junctions_total()));
  const size_t junctions_width = details.junctions.empty() ? 0 : all_done.size();
  return {fmt::format("{:<{}}", details.junctions, junctions_width),
          fmt::format("{:>11}", details.rate), fmt::format("{:<9}", details.eta)};
}

std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += separator + part;
  }
  return text;
}

std::string bar(double fraction, int width, const BarStyle& style) {
  const int full = static_cast<int>(fraction * width);
  std::string done, rest;
  for (int i = 0; i < full; ++i) done += style.unicode ? "━" : "#";
  for (int i = full; i < width; ++i) rest += style.unicode ? "─" : "-";
  if (!style.colour) return done + rest;
  return "\x1b[36m" + done + "\x1b[0m\x1b[2m" + rest + "\x1b[0m";
}

}  // namespace

std::string render_share(const v1::Progress& progress) {
  return std::to_string(static_cast<int>(100.0 * fraction_of(progress) + kRounding)) + " %";
}

std::string render_bar(const v1::Progress& progress, const BarStyle& style) {
  std::string phase = phase_name(progress);
  phase.resize(std::max(phase.size(), kPhaseWidth), ' ');
  std::string share = render_share(progress);
  share.insert(0, std::max<int>(0, 5 - display_width(share)), ' ');
  const Details details = padded(progress);
  const int available = style.columns - 1;

  for (const std::string& tail : {joined({details.junctions, details.rate, details.eta}, "  "),
                                  joined({details.junctions, details.eta}, "  "),
                                  joined({details.eta}, "  "), std::string()}) {
    const int taken = display_width(fmt::format("{}    {}{}", phase, share, tail));
    const int width = std::min(kMaxBar, available - taken);
    if (width < kShortestBar) continue;
    const std::string line =
        fmt::format("{}  {}  {}{}", phase, bar(fraction_of(progress), width, style), share, tail);
    return line.substr(0, line.find_last_not_of(' ') + 1);
  }
  const std::string shortest = render_share(progress) + " " + phase_name(progress);
  return shortest.substr(0, std::max(0, available));
}

std::string render_plain(const v1::Progress& progress) {
  const Details details = details_of(progress);
  return phase_name(progress) + " " + render_share(progress) +
         joined({details.junctions, details.rate, details.eta}, ", ");
}

}  // namespace dotresize
