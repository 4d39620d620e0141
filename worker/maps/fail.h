#pragma once

#include <sstream>
#include <stdexcept>

namespace dotresize {

/// Throws std::runtime_error with the parts as its text.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw std::runtime_error(message.str());
}

}  // namespace dotresize
