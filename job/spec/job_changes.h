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

/// Gives `key` of the job the value that it has in `part`, and takes away what goes with no other
/// key, as apply_changes does.
void set_key(const std::string& key, const v1::JobSpec& part, v1::JobSpec& spec);

/// Takes `key` away.
void clear_key(const std::string& key, v1::JobSpec& spec);

/// Whether a job can have only one of the two keys, or one lies in the other.
bool exclude_each_other(const std::string& a, const std::string& b);

}  // namespace dotresize
