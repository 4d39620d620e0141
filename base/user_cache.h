#pragma once

#include <filesystem>

namespace dotresize {

/// $XDG_CACHE_HOME/dotresize or ~/.cache/dotresize, where nobody else writes; empty where the
/// environment names neither. A variable that is empty counts as not set, as the XDG Base Directory
/// Specification has it.
std::filesystem::path user_cache_dir();

}  // namespace dotresize
