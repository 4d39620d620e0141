#pragma once

#include <string>
#include <vector>

#include "job/spec/requests.h"
#include "worker/commands/eval/measure_models.h"

namespace dotresize {

/// Sets a missing `seqlen` of text to that of the first model whose report has a perplexity, if
/// there is one, because perplexities depend on the window length. Throws InputError for a report
/// that cannot be read.
void take_reported_seqlen(EvalRequest& request);

/// Returns a sentence for each model whose report has a perplexity over windows of another length
/// than those measured.
std::vector<std::string> seqlen_warnings(const std::vector<MeasuredModel>& models);

}  // namespace dotresize
