#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "job/spec/requests.h"

namespace dotresize {

/// The arguments of `dotresize eval`, which `dotresize-worker eval` has too. Asking for neither
/// perplexity nor latency is a CLI::ParseError. `request` must outlive `app`.
void add_eval_options(CLI::App& app, EvalRequest& request);

/// The arguments that add_eval_options turns into `request`.
std::vector<std::string> eval_arguments(const EvalRequest& request);

/// The arguments of `dotresize verify`, which `dotresize-worker verify` has too. Tokens without
/// --against are a CLI::ParseError. `request` must outlive `app`.
void add_verify_options(CLI::App& app, VerifyRequest& request);

/// The arguments that add_verify_options turns into `request`.
std::vector<std::string> verify_arguments(const VerifyRequest& request);

}  // namespace dotresize
