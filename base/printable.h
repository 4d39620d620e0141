#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dotresize {

/// `text` as valid UTF-8 without control characters (each bad byte becomes '?', each line break a
/// space), cut to at most `max_bytes` at a character's boundary. For what comes from processes and
/// clients and goes into logs and messages.
std::string printable(std::string_view text, size_t max_bytes);

}  // namespace dotresize
