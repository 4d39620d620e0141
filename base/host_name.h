#pragma once

#include <string>

namespace dotresize {

/// This machine's name, as error messages, the report and traces say it.
std::string host_name();

}  // namespace dotresize
