#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace dotresize {

/// Checks the shortcut M_inv_in · M_out between two orthonormal maps (method.md, "Folding"): no
/// singular value exceeds 1. If a junction at either end has the full width, its map is a rotation
/// and all singular values are 1. The tolerance is the Frobenius norm of the rounding to the stored
/// dtype, which bounds the change of singular values. `stored`: [k_out, k_in] of a floating dtype,
/// finite. Returns the problem as the end of a sentence; nothing if it is OK.
std::optional<std::string> shortcut_problem(const at::Tensor& stored, int64_t hidden_size);

/// Checks the factor A of a shortcut I - A·A' to the width `k_out` (job/model/model_config.h), of
/// full or reduced rank: no singular value of A' or of the shortcut exceeds 1. `stored`: [rank,
/// k_in].
std::optional<std::string> shortcut_factor_problem(const at::Tensor& stored, int64_t k_out);

}  // namespace dotresize
