#pragma once

#include "job/spec/requests.h"

namespace dotresize {

/// `dotresize-worker eval`: perplexity and latency of the models, as a table or as one JSON
/// document; progress (as ProgressRecords or ProgressLines) and warnings on stderr. Returns the
/// exit code.
int eval_command(const EvalRequest& asked, bool json, bool progress_records);

}  // namespace dotresize
