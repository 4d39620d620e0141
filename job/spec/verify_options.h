#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "job/spec/verify_request.h"

namespace dotresize {

/// The arguments of `dotresize verify`, which `dotresize-worker verify` has too. Tokens without
/// --against are a CLI::ParseError. `request` must outlive `app`.
void add_verify_options(CLI::App& app, VerifyRequest& request);

/// The arguments that add_verify_options turns into `request`.
std::vector<std::string> verify_arguments(const VerifyRequest& request);

}  // namespace dotresize
