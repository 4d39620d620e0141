#pragma once

#include <filesystem>
#include <string>

#include "client/verbs/verb.h"
#include "job/page/page.h"

namespace dotresize {

/// Whether the directory is one that `dotresize sweep` writes into, and not a model.
bool is_sweep_directory(const std::filesystem::path& dir);

/// The page of `what`: a job that has ended, by its id; a model directory; the directory of a
/// sweep, or of one of its jobs that has failed. Throws InputError for anything else.
Page read_page(const std::string& what, const CommonOptions& common);

}  // namespace dotresize
