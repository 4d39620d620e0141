#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dotresize {

/// "a, b, c".
std::string listed(const std::vector<std::string>& words);

/// Formats a count with a noun that takes an s: "1 problem", "2,048 problems".
std::string counted(int64_t number, const std::string& noun);

/// Returns the candidate with the smallest edit distance to `word` if it may be a typing error (at
/// most a third of the letters); otherwise empty.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

/// "8,030,261,248".
std::string with_separators(int64_t number);

/// "512 B", "14.9 GiB": binary units, three significant digits or more.
std::string human_bytes(int64_t bytes);

/// Rounds up: "14.9 GiB" is at least `bytes`. Use it for limits that a user types in again.
std::string human_bytes_rounded_up(int64_t bytes);

/// Parses a number of bytes from 1 to 2^60: "24GiB", "1.5 TB", "1048576". The unit is KiB, MiB,
/// GiB, TiB, KB, MB, GB, TB, B or absent. Returns nothing for any other text.
std::optional<int64_t> parse_bytes(std::string_view text);

/// Number of code points of UTF-8 text: its display columns, except for wide characters.
int display_width(const std::string& text);

enum class Align { kLeft, kRight };
/// Formats columns two spaces apart; a left-aligned last column is not padded. Each line ends with
/// a newline. Every row has one cell for each entry of `alignment`.
std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<Align>& alignment);

/// "850", "12.3k", "4.56M".
std::string format_rate(double per_second);
/// Formats a clock: "0:42", "12:05", "1:02:03".
std::string format_clock(double seconds);
/// Formats a duration to read: "42 s", "12 min 5 s", "3 h 2 min", "4 d 3 h".
std::string format_duration(double seconds);
/// Formats the change from `before` to `after`: "+5.4 %", "-20.3 %"; "" if `before` is 0.
std::string format_change(double before, double after);
/// Formats a perplexity: "12.345", "0.01234".
std::string format_perplexity(double value);
/// Formats a divergence in nats: "0.0421", "3.2e-11".
std::string format_nats(double value);
/// "91.2 %"
std::string format_percent(double fraction);

}  // namespace dotresize
