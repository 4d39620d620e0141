#pragma once

#include <string>

namespace dotresize {

/// A random (version 4) UUID from the operating system: the name of one intent to submit.
std::string new_request_id();

}  // namespace dotresize
