#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "job/spec/token_source.h"

namespace dotresize {

/// --text FILE... or --tokens FILE, and --seqlen with one of them. `purpose` begins their
/// descriptions: "Perplexity over".
void add_source_options(CLI::App& app, TokenSource& source, const std::string& purpose);

/// Throws CLI::ValidationError for a --seqlen of nothing. For the app's callback.
void check_source_options(const TokenSource& source);

/// Appends the arguments that those options turn into `source`.
void append_source_arguments(const TokenSource& source, std::vector<std::string>& arguments);

}  // namespace dotresize
