#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace dotresize {

/// Script that completes the verbs and options of `app`, files, and the ids of the server's jobs.
/// `shell` is "bash" or "zsh".
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace dotresize
