#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace dotresize {

/// What is wrong with the command line that `app` could not parse, in a sentence without a full
/// stop: an unknown verb or option comes with the nearest one that there is.
std::string usage_fault(const CLI::App& app, const CLI::ParseError& error);

}  // namespace dotresize
