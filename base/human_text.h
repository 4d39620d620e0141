#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dotresize {

/// "a, b, c".
std::string listed(const std::vector<std::string>& words);

/// "1 problem", "2,048 problems": of a noun that takes an s.
std::string counted(int64_t number, const std::string& noun);

/// The candidate with the smallest edit distance to `word`, if a typing error may explain it
/// (at most a third of the letters); otherwise empty.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

/// "8,030,261,248".
std::string with_separators(int64_t number);

/// "512 B", "14.9 GiB": binary units, three significant digits or more.
std::string human_bytes(int64_t bytes);

/// "14.9 GiB": no less than `bytes`, for limits that are typed in again.
std::string human_bytes_rounded_up(int64_t bytes);

/// "24GiB", "1.5 TB", "1048576": a number of bytes from 1 to 2^60, with KiB, MiB, GiB, TiB, KB, MB,
/// GB, TB, B or none. Nothing for any other text.
std::optional<int64_t> parse_bytes(std::string_view text);

/// Code points of UTF-8 text: the columns it takes, wide characters aside.
int display_width(const std::string& text);

enum class Align { kLeft, kRight };
/// Columns two spaces apart, the last left-aligned one not padded; each line ends with a newline.
/// Every row has one cell for each entry of `alignment`.
std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<Align>& alignment);

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
/// A divergence in nats: "0.0421", "3.2e-11".
std::string format_nats(double value);
/// "91.2 %"
std::string format_percent(double fraction);

}  // namespace dotresize
