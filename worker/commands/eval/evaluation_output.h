#pragma once

#include <string>
#include <vector>

#include "job/spec/requests.h"
#include "worker/commands/eval/measure_models.h"

namespace dotresize {

/// Perplexities over different tokens cannot be compared: a sentence for each model whose tokens or
/// vocabulary are not those of the first one.
std::vector<std::string> comparison_warnings(const std::vector<MeasuredModel>& evaluations);

/// A row for each model; changes are those against the first one, of comparable perplexities.
std::string evaluation_table(const EvalRequest& request,
                             const std::vector<MeasuredModel>& evaluations);

/// The document of `dotresize eval -o json` (docs/cli.md).
std::string evaluation_json(const EvalRequest& request,
                            const std::vector<MeasuredModel>& evaluations);

}  // namespace dotresize
