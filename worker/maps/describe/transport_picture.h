#pragma once

#include <ATen/core/Tensor.h>

#include "job/report/transport_picture.h"

namespace dotresize {

/// Returns the picture of a plan T [d, k] float64 with columns for the channels `support` [k]
/// int64, ascending, on the same device. Needs memory for a few rows of the picture. Numbers are
/// rounded, so that they do not depend on the number of threads.
TransportPicture transport_picture(const at::Tensor& T, const at::Tensor& support);

}  // namespace dotresize
