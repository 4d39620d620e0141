#pragma once

#include <string_view>

namespace dotresize {

/// True if `text` is a `traceparent` (W3C Trace Context, version 00) with a trace id and a span id.
bool is_traceparent(std::string_view text);

}  // namespace dotresize
