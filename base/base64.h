#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dotresize {

/// RFC 4648, section 4, with padding.
std::string base64(std::string_view bytes);

/// The `size` bytes that `text` is the base64 of; nothing if it is no such text, or one of another
/// size.
std::optional<std::string> from_base64(std::string_view text, size_t size);

}  // namespace dotresize
