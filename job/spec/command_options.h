#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "job/spec/requests.h"

namespace dotresize {

/// Adds an option whose value has this name in the help: "FILE", "N".
template <class Value>
CLI::Option* add_value(CLI::App& app, const std::string& names, const std::string& value_name,
                       Value& value, const std::string& description) {
  return app.add_option(names, value, description)->type_name(value_name);
}

/// Adds an argument that must be given.
template <class Value>
CLI::Option* add_argument(CLI::App& app, const std::string& name, Value& value,
                          const std::string& description) {
  return app.add_option(name, value, description)->required()->type_name("");
}

/// Throws CLI::ValidationError if an option or argument of `app`, or of a subcommand that was
/// parsed, was given as an empty text, which names no file, job or value; also if its environment
/// variable is a list without an entry.
void refuse_empty_arguments(const CLI::App& app);

/// Adds the options that `dotresize eval` and `dotresize-worker eval` share. Parsing throws
/// CLI::ParseError if neither perplexity nor latency is asked for. `request` must outlive `app`.
void add_eval_options(CLI::App& app, EvalRequest& request);

/// Returns the arguments that add_eval_options parses into `request`.
std::vector<std::string> eval_arguments(const EvalRequest& request);

/// Adds the options that `dotresize verify` and `dotresize-worker verify` share. Parsing throws
/// CLI::ParseError for tokens without --against. `request` must outlive `app`.
void add_verify_options(CLI::App& app, VerifyRequest& request);

/// Returns the arguments that add_verify_options parses into `request`.
std::vector<std::string> verify_arguments(const VerifyRequest& request);

}  // namespace dotresize
