#include "client/display/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/human_text.h"

namespace dotresize {
namespace {

constexpr int kShortestBar = 8;
constexpr int kMaxBar = 40;
constexpr size_t kPhaseWidth = sizeof("evaluate_compressed") - 1;

/// Pads each field to its maximal width, so that the bar's length does not change.
ProgressDetails padded(const v1::Progress& progress) {
  const ProgressDetails details = details_of(progress);
  const std::string all_done =
      fmt::format("junctions {0}/{0}", std::max(0, progress.junctions_total()));
  const size_t junctions_width = progress.junctions_total() > 0 ? all_done.size() : 0;
  return {fmt::format("{:<{}}", details.junctions, junctions_width),
          fmt::format("{:>11}", details.rate), fmt::format("{:<9}", details.eta)};
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

std::string render_bar(const v1::Progress& progress, const BarStyle& style) {
  std::string phase = phase_name(progress);
  phase.resize(std::max(phase.size(), kPhaseWidth), ' ');
  std::string share = render_share(progress);
  share.insert(0, std::max<int>(0, 5 - display_width(share)), ' ');
  const ProgressDetails details = padded(progress);
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

}  // namespace dotresize
