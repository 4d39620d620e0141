#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dotresize {

/// `text` as one line of valid UTF-8 without control characters (C0, C1, and those that change the
/// direction of a text): a line break or tab becomes a space, any other that is not allowed '?'.
/// Cut to at most `max_bytes` at a character's boundary. For what comes from processes and clients
/// and goes into logs and messages.
std::string printable(std::string_view text, size_t max_bytes = std::string::npos);

/// The same, but line feeds and tabs are kept and other control characters become '?'.
std::string printable_lines(std::string_view text);

/// Whether printable() would change nothing.
bool is_printable(std::string_view text);

/// Whether `text` has no characters but ASCII letters and digits and those of `also`.
bool is_plain_word(std::string_view text, std::string_view also);

/// How many bytes at the end of `text` begin a character of UTF-8 that further ones may complete.
size_t begun_character(std::string_view text);

/// A value from outside for an error message: in single quotes, bytes that are not printable as
/// \xNN, cut to at most 100 bytes at a character's boundary, then "...".
std::string in_quotes(std::string_view value);

/// Two lower-case hexadecimal digits for each byte.
std::string hex_digits(std::string_view bytes);

}  // namespace dotresize
