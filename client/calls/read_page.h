#pragma once

#include <filesystem>
#include <string>

#include "client/verbs/verb.h"
#include "job/page/page.h"

namespace dotresize {

/// True if `dir` is a directory written by `dotresize sweep`, and not a model.
bool is_sweep_directory(const std::filesystem::path& dir);

/// Reads the report page of `what`: the id of an ended job; a model directory; the directory of a
/// sweep, or of one of its failed jobs. Throws InputError for anything else.
Page read_page(const std::string& what, const CommonOptions& common);

}  // namespace dotresize
