#pragma once

namespace dotresize {

/// The project's version, as CMakeLists.txt states it.
inline constexpr char kVersion[] = DOTRESIZE_VERSION;

}  // namespace dotresize
