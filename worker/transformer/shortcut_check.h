#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace dotresize {

/// What orthonormal maps imply of the shortcut M_inv_in · M_out between them (method.md,
/// "Folding"): no singular value exceeds 1; and if a junction at either end has the full width,
/// so that its map is a rotation, all of them are 1. Rounding to the stored dtype moves singular
/// values by no more than the Frobenius norm of what it took off, and so much is allowed. `stored`:
/// [k_out, k_in] of a floating dtype, finite. Returns what is wrong, as the end of a sentence;
/// nothing if it is OK.
std::optional<std::string> shortcut_problem(const at::Tensor& stored, int64_t hidden_size);

/// Likewise of the one factor A of a shortcut I - A·A' to the width `k_out`
/// (job/model/shortcut_form.h), of full rank or cut: neither A' nor the shortcut stretches
/// anything. `stored`: [rank, k_in].
std::optional<std::string> shortcut_factor_problem(const at::Tensor& stored, int64_t k_out);

}  // namespace dotresize
