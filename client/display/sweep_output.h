#pragma once

#include "client/verbs/verb.h"
#include "dotresize/v1/sweep.pb.h"

namespace dotresize {

/// Prints what a sweep has given as `dotresize sweep` prints it: the table, with `pareto`
/// of the front alone, or the document of results.json.
void print_sweep(const v1::SweepResults& results, bool pareto, const CommonOptions& common);

}  // namespace dotresize
