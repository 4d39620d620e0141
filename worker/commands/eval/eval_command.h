#pragma once

#include "job/spec/requests.h"

namespace dotresize {

/// Runs `dotresize-worker eval`: reports the models' perplexity, divergence from a reference, and
/// latency as a table or a JSON document. Progress (as ProgressRecords or ProgressLines) and
/// warnings go to stderr. Returns the exit code.
int eval_command(const EvalRequest& asked, bool json, bool progress_records);

}  // namespace dotresize
