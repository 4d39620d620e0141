#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dotresize {

/// Encodes as RFC 4648, section 4, with padding.
std::string base64(std::string_view bytes);

/// Decodes `text` to exactly `size` bytes. Returns nothing if it is not base64 or has another size.
std::optional<std::string> from_base64(std::string_view text, size_t size);

}  // namespace dotresize
