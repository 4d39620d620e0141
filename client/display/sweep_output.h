#pragma once

#include "client/verbs/verb.h"
#include "dotresize/v1/sweep.pb.h"

namespace dotresize {

/// Prints a sweep's results like `dotresize sweep`: the table, or the document of results.json.
/// `pareto`: the table has only the Pareto front.
void print_sweep(const v1::SweepResults& results, bool pareto, const CommonOptions& common);

}  // namespace dotresize
