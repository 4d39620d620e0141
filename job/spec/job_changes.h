#pragma once

#include <map>
#include <string>
#include <vector>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

/// Applies what `--set KEY=VALUE` asks for, in order: "method.size=0.7". The value is YAML; an
/// empty one or null takes the key away. A key that goes with no other one (of method.sparsity,
/// width, size and widths; of text and tokens) takes the place of those. Relative paths are
/// relative to the working directory. Returns the keys that were set, each with its change as it
/// was written. Throws InputError: each fault on a line, "--set CHANGE: KEY: WHAT".
std::map<std::string, std::string> apply_changes(const std::vector<std::string>& changes,
                                                 v1::JobSpec& spec);

}  // namespace dotresize
