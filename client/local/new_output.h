#pragma once

#include <filesystem>

namespace dotresize {

/// Throws InputError unless `out` can be created: before the work instead of after it.
void require_creatable(const std::filesystem::path& out);

}  // namespace dotresize
