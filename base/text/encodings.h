#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dotresize {

// Texts in formats that others define.

/// Encodes as RFC 4648, section 4, with padding.
std::string base64(std::string_view bytes);

/// Decodes `text` to exactly `size` bytes. Returns nothing if it is not base64 or has another size.
std::optional<std::string> from_base64(std::string_view text, size_t size);

/// Returns a CSV cell (RFC 4180): quoted if it has a comma, a quote or a line break.
std::string csv_cell(std::string_view text);

/// True if `text` is a `traceparent` (W3C Trace Context, version 00) with a trace id and a span id.
bool is_traceparent(std::string_view text);

}  // namespace dotresize
