#pragma once

#include "client/verb.h"
#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Prints what a server's sweep has given as `dotresize sweep` prints it: the table, with `pareto`
/// of the front alone, or the document of results.json.
void print_sweep(const v1::Sweep& sweep, bool pareto, const CommonOptions& common);

}  // namespace dotresize
