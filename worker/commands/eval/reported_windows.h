#pragma once

#include <string>
#include <vector>

#include "job/spec/requests.h"
#include "worker/commands/eval/measure_models.h"

namespace dotresize {

/// Perplexities depend on the length of the windows. Text without `seqlen` gets that of the first
/// model whose report has a perplexity, if there is one. Throws InputError for a report that cannot
/// be read.
void take_reported_seqlen(EvalRequest& request);

/// A sentence for each model whose report has a perplexity over windows of another length than
/// those that were measured.
std::vector<std::string> seqlen_warnings(const std::vector<MeasuredModel>& models);

}  // namespace dotresize
