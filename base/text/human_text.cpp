#include "base/text/human_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/text/encodings.h"

namespace dotresize {
namespace {

/// Levenshtein distance, one row of the table at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// Rounds seconds to a whole number that is safe for arithmetic, whatever a server sent.
int64_t whole_seconds(double seconds) {
  constexpr double kMax = 1e9;
  return std::isnan(seconds) ? 0 : std::llround(std::clamp(seconds, 0.0, kMax));
}

}  // namespace

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string counted(int64_t number, const std::string& noun) {
  return with_separators(number) + " " + noun + (number == 1 ? "" : "s");
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kMaxWord = 60;  // a longer word is not a mistyped key
  if (word.size() > kMaxWord) return "";
  std::string best;
  std::size_t best_distance = word.size() / 3 + 2;  // one more than the accepted distance
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string with_separators(int64_t number) {
  std::string digits = std::to_string(number);
  const std::ptrdiff_t first = number < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

std::string human_bytes(int64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < kUnits.size(); ++unit) value /= 1024.0;
  return fmt::format("{:.{}f} {}", value, value < 10.0 ? 2 : 1, kUnits[unit]);
}

std::string human_bytes_rounded_up(int64_t bytes) {
  int64_t unit = 1;
  while (unit <= bytes / 1024) unit *= 1024;
  if (unit == 1) return human_bytes(bytes);
  const int64_t digits = bytes < 10 * unit ? 100 : 10;  // digits that human_bytes prints
  const int64_t parts = bytes / unit * digits + (bytes % unit * digits + unit - 1) / unit;
  const int64_t rounded = (parts * unit + digits - 1) / digits;
  return human_bytes(rounded);
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  constexpr double kMaxBytes = 0x1p60;
  constexpr std::array<std::pair<std::string_view, double>, 10> kUnits = {{{"KiB", 0x1p10},
                                                                           {"MiB", 0x1p20},
                                                                           {"GiB", 0x1p30},
                                                                           {"TiB", 0x1p40},
                                                                           {"KB", 1e3},
                                                                           {"MB", 1e6},
                                                                           {"GB", 1e9},
                                                                           {"TB", 1e12},
                                                                           {"B", 1.0},
                                                                           {"", 1.0}}};
  const auto unit =
      std::ranges::find_if(kUnits, [&](const auto& each) { return text.ends_with(each.first); });
  text.remove_suffix(unit->first.size());
  if (text.ends_with(' ')) text.remove_suffix(1);
  const std::optional<double> number = parse_number<double>(text, std::chars_format::fixed);
  if (!number || !(*number * unit->second >= 1.0 && *number * unit->second <= kMaxBytes)) return {};
  return std::llround(*number * unit->second);
}

int display_width(const std::string& text) {
  return static_cast<int>(std::ranges::count_if(text, [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not a continuation byte
  }));
}

std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<Align>& alignment) {
  std::vector<int> widths(alignment.size(), 0);
  for (const auto& row : rows) {
    for (size_t c = 0; c < widths.size(); ++c) {
      widths[c] = std::max(widths[c], display_width(row[c]));
    }
  }
  std::string table;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < widths.size(); ++c) {
      if (c > 0) line += "  ";
      const std::string padding(widths[c] - display_width(row[c]), ' ');
      line += alignment[c] == Align::kRight ? padding + row[c] : row[c] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  }
  return table;
}

std::string format_rate(double per_second) {
  static constexpr std::array<const char*, 5> kUnits = {"", "k", "M", "G", "T"};
  double value = per_second;
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000.0;
  // With a unit, three significant digits of a value in [1, 1000).
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value < 9.995 ? 2 : 1;
  return fmt::format("{:.{}f}{}", value, decimals, kUnits[unit]);
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

std::string format_nats(double value) {
  return std::abs(value) < 0.001 ? fmt::format("{:.1e}", value) : fmt::format("{:.4f}", value);
}

std::string format_percent(double fraction) { return fmt::format("{:.1f} %", 100.0 * fraction); }

}  // namespace dotresize
