#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dotresize {

/// Returns an orthogonal matrix [k, k], float64 on the CPU, the same in every run: a cosine
/// transform of channels with random signs. No entry exceeds sqrt(2/k). With M·R in place of a map
/// M, each channel has a small part of all channels of M, so quantizers find no channel with larger
/// weights than the others (docs/method.md, "Sharing maps").
at::Tensor spreading_rotation(int64_t k);

}  // namespace dotresize
