#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace dotresize {

/// Reads all entries of a directory, so that the caller may remove them. Sets `error` if the
/// directory cannot be read, and returns the entries read until then; a range-for over
/// directory_iterator would throw there.
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& dir,
                                                         std::error_code& error);

}  // namespace dotresize
