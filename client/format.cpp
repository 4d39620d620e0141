#include "client/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace dotresize {
namespace {

/// Three significant digits for a value in [1, 1000).
std::string three_digits(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

/// Seconds as a whole number that arithmetic can be done on, whatever a server sent.
int64_t whole_seconds(double seconds) {
  constexpr double kMax = 1e9;
  return std::isnan(seconds) ? 0 : std::llround(std::clamp(seconds, 0.0, kMax));
}

}  // namespace

std::string format_rate(double per_second) {
  static constexpr std::array<const char*, 5> kUnits = {"", "k", "M", "G", "T"};
  double value = per_second;
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000.0;
  return (unit == 0 ? fmt::format("{:.0f}", value) : three_digits(value)) + kUnits[unit];
}

std::string format_clock(double seconds) {
  const int64_t total = whole_seconds(seconds);
  if (total < 3600) return fmt::format("{}:{:02}", total / 60, total % 60);
  return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
}

std::string format_duration(double seconds) {
  struct Unit {
    int64_t seconds;
    const char* name;
  };
  static constexpr std::array<Unit, 4> kUnits = {
      {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}}};
  const int64_t total = whole_seconds(seconds);
  for (size_t i = 0; i + 1 < kUnits.size(); ++i) {
    if (total < kUnits[i].seconds) continue;
    const int64_t rest = total % kUnits[i].seconds / kUnits[i + 1].seconds;
    return fmt::format("{} {} {} {}", total / kUnits[i].seconds, kUnits[i].name, rest,
                       kUnits[i + 1].name);
  }
  return fmt::format("{} s", total);
}

std::string format_change(double before, double after) {
  if (before == 0.0) return "";
  return fmt::format("{:+.1f} %", 100.0 * (after - before) / before);
}

std::string format_perplexity(double value) {
  return fmt::format("{:.{}f}", value, value < 10.0 ? 4 : 3);
}

}  // namespace dotresize
