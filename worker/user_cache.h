#pragma once

#include <filesystem>

namespace dotresize {

/// $XDG_CACHE_HOME/dotresize or ~/.cache/dotresize, where tokenised text is kept: nobody else
/// writes there. Throws InputError where the environment names neither.
std::filesystem::path user_cache_dir();

}  // namespace dotresize
