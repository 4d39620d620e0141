#pragma once

#include "dotresize/v1/job.pb.h"

namespace dotresize {

/// Decides `name` and `allocate` where the job leaves them open. A net size alone, which says
/// nothing of how it is reached, means `slicegpt` with `allocate: auto`; anything else the paper's
/// `pca_dotresize` without an allocation.
void complete_method(v1::Method& method);

}  // namespace dotresize
