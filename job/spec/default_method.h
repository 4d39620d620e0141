#pragma once

#include "dotresize/v1/job.pb.h"

namespace dotresize {

/// Sets `allocate` and `name` if the job does not. `allocate` becomes auto for a net size alone
/// (`head`, `round_to` and `allow_larger` may stand beside it), else off. `name` becomes slicegpt
/// with `allocate: auto`, else the paper's pca_dotresize.
void complete_method(v1::Method& method);

}  // namespace dotresize
