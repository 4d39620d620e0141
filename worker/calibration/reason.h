#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <stdexcept>
#include <string>

#include "base/errors.h"
#include "base/failure.h"

namespace dotresize {

/// Error text of an exception, without the stack trace of libtorch's own errors.
inline std::string reason_of(const std::exception& error) {
  const auto* of_libtorch = dynamic_cast<const c10::Error*>(&error);
  return of_libtorch ? of_libtorch->what_without_backtrace() : error_text(error);
}

/// Runs `step`, and prefixes its error text with `where`. InputError and NonFiniteError keep their
/// type; other exceptions, including libtorch's, become std::runtime_error.
template <typename Step>
auto with_context(const std::string& where, const Step& step) {
  try {
    return step();
  } catch (const InputError& error) {
    throw InputError(where + ": " + error.what());
  } catch (const NonFiniteError& error) {
    throw NonFiniteError(where + ": " + error.what());
  } catch (const std::exception& error) {
    throw std::runtime_error(where + ": " + reason_of(error));
  }
}

}  // namespace dotresize
