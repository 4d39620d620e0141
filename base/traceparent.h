#pragma once

#include <string_view>

namespace dotresize {

/// Whether it is a `traceparent` (W3C Trace Context, version 00) of a trace and a span.
bool is_traceparent(std::string_view text);

}  // namespace dotresize
