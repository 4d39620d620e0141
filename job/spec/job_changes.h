#pragma once

#include <map>
#include <string>
#include <vector>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

/// Applies `--set KEY=VALUE` changes such as "method.size=0.7", in order. The value is YAML; an
/// empty or null value removes the key. Setting one of several exclusive keys (such as
/// method.sparsity, width and size, or text and tokens) removes the others. Relative paths are
/// relative to the working directory. Returns each key that was set with the text of its change.
/// Throws InputError with one line per fault, "--set CHANGE: KEY: WHAT".
std::map<std::string, std::string> apply_changes(const std::vector<std::string>& changes,
                                                 v1::JobSpec& spec);

/// Sets `key` of the job to its value in `part`, and removes the keys that exclude it, as
/// apply_changes does.
void set_key(const std::string& key, const v1::JobSpec& part, v1::JobSpec& spec);

/// Removes `key`.
void clear_key(const std::string& key, v1::JobSpec& spec);

/// Returns true if a job can have only one of the two keys, or if one contains the other.
bool exclude_each_other(const std::string& a, const std::string& b);

}  // namespace dotresize
