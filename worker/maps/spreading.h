#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dotresize {

/// Orthogonal [k, k], the same in every run, float64 on the CPU: a cosine transform of channels
/// whose signs are drawn. No entry is larger than sqrt(2/k), so with M·R in place of a map M each
/// channel has a little of all of M's, and quantizers find no channel with larger weights than the
/// others (docs/method.md, "Sharing maps").
at::Tensor spreading_rotation(int64_t k);

}  // namespace dotresize
