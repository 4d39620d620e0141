#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace dotresize {

/// What went wrong, in words for people: without the stack trace that libtorch's own errors carry.
inline std::string reason_of(const std::exception& error) {
  const auto* of_libtorch = dynamic_cast<const c10::Error*>(&error);
  return of_libtorch ? of_libtorch->what_without_backtrace() : error.what();
}

}  // namespace dotresize
