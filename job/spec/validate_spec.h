#pragma once

#include <string>
#include <vector>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

/// One thing wrong with a JobSpec. `field` is the key's path, "method.sparsity".
struct FieldViolation {
  std::string field;
  std::string description;
};

/// The faults of a spec that show without reading any file: ranges, exactly-one-of, required
/// fields, fields of a newer version, absolute paths if `require_absolute_paths`. Empty if there
/// are none.
std::vector<FieldViolation> validate_spec(const v1::JobSpec& spec, bool require_absolute_paths);

/// Of these faults those fields of a newer version that the spec would lose in another form than
/// protobuf's.
std::vector<FieldViolation> unknown_fields(const v1::JobSpec& spec);

}  // namespace dotresize
