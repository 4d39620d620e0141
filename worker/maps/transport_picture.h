#pragma once

#include <ATen/core/Tensor.h>

#include "job/report/transport_picture.h"

namespace dotresize {

/// The picture of a plan T [d, k] float64, whose columns are the channels `support` [k] int64,
/// ascending, on the same device. Takes the memory of a few rows of the picture. Its numbers are
/// rounded, so that they do not depend on the number of threads.
TransportPicture transport_picture(const at::Tensor& T, const at::Tensor& support);

}  // namespace dotresize
