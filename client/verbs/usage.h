#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace dotresize {

/// Explains why `app` could not parse the command line, in a sentence without a full stop. An
/// unknown verb or option comes with the nearest existing one.
std::string usage_fault(const CLI::App& app, const CLI::ParseError& error);

}  // namespace dotresize
