#pragma once

#include <string_view>

namespace dotresize {

// The files of examples/hardware/, embedded when the program is built.
std::string_view cpu_yaml();
std::string_view v100x8_yaml();
std::string_view a100x8_yaml();
std::string_view h100x1_yaml();

}  // namespace dotresize
