#pragma once

#include <cstdint>
#include <string>

#include "base/text_table.h"

namespace dotresize {

/// "850", "12.3k", "4.56M".
std::string format_rate(double per_second);
/// A clock: "0:42", "12:05", "1:02:03".
std::string format_clock(double seconds);
/// For reading: "42 s", "12 min 5 s", "3 h 2 min", "4 d 3 h".
std::string format_duration(double seconds);
/// What became of `before`: "+5.4 %", "-20.3 %"; "" if `before` is 0.
std::string format_change(double before, double after);
/// A number that people compare: "12.345", "0.01234".
std::string format_perplexity(double value);

}  // namespace dotresize
