#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dotresize {

/// Returns `text` as one line of valid UTF-8 without control characters (C0, C1, and characters
/// that change the direction of a text). Line breaks and tabs become spaces, other forbidden
/// characters '?'. Cuts to at most `max_bytes` at a character boundary. Use it for texts from
/// processes and clients in logs and messages.
std::string printable(std::string_view text, size_t max_bytes = std::string::npos);

/// Version that keeps line feeds and tabs; other control characters become '?'.
std::string printable_lines(std::string_view text);

/// True if printable() would change nothing.
bool is_printable(std::string_view text);

/// True if `text` has only ASCII letters, digits and the characters of `also`.
bool is_plain_word(std::string_view text, std::string_view also);

/// Returns the tail of a log that was read with this limit, without its first line if that may be
/// the end of a longer one: the tail has `max_bytes`.
std::string whole_lines(std::string tail, size_t max_bytes);

/// Number of bytes at the end of `text` that begin an incomplete UTF-8 character.
size_t begun_character(std::string_view text);

/// Formats an outside value for an error message: in single quotes, unprintable bytes as \xNN, cut
/// to at most 100 bytes at a character boundary and then "...".
std::string in_quotes(std::string_view value);

}  // namespace dotresize
