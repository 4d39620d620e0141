#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

/// One fault of a JobSpec. `field` is the key's path, "method.sparsity".
struct FieldViolation {
  std::string field;
  std::string description;
};

/// Returns the faults of a spec that can be found without reading files: ranges, exclusive and
/// required fields, fields of a newer version, and relative paths. Empty if the spec is valid.
std::vector<FieldViolation> validate_spec(const v1::JobSpec& spec);

/// True if `name` can be that of a launcher: [a-z][a-z0-9-]{0,30}.
bool is_launcher_name(std::string_view name);

/// Returns only the fields of a newer version, which any other format than protobuf would lose.
std::vector<FieldViolation> unknown_fields(const v1::JobSpec& spec);

/// True if the job says how large the output is to be: by its size, its bytes or its speed.
bool asks_for_size(const v1::Method& method);

/// Sets `allocate` and `name` if the job does not. `allocate` becomes auto for a net size alone
/// (`head`, which auto refuses, `round_to` and `allow_larger` may stand beside it), else off.
/// `name` becomes the paper's pca_dotresize, unless `allocate` is auto: then there are no maps.
void complete_method(v1::Method& method);

/// Name of the job: its own, or else the last component of its output's place.
std::string name_of(const v1::JobSpec& spec);

/// Fault of a path that must be absolute; empty if it is.
std::string absolute_fault(const std::string& path);

/// Ranks that the job asks for: 1 if it does not say.
int ranks_of(const v1::JobSpec& spec);

}  // namespace dotresize
