#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dotresize {

/// State of a removal of features (worker/maps/removal/feature_removal.h) after its last block of
/// steps. All float64, on one device. On the CPU the entries of both matrices above the diagonal
/// are not used.
struct RemovalState {
  at::Tensor inverse;   ///< H⁻¹ [n, n]
  at::Tensor products;  ///< VᵀV [n, n]
  at::Tensor squares;   ///< ‖v_j‖² after the last step [n]; infinite once removed
  at::Tensor diagonal;  ///< diagonal of H⁻¹ after the last step [n]; 1 once removed
};

/// Steps that `inverse` and `products` do not contain yet.
struct RemovalSteps {
  at::Tensor rows;     ///< r of each step [count, n]
  at::Tensor changes;  ///< w of each step [count, n]
  at::Tensor costs;    ///< s of each step [count]
  at::Tensor removed;  ///< row of each step's feature in the state [count], int64
};

/// Largest number of steps of one call.
inline constexpr int64_t kMaxRemovalSteps = 64;

/// Removes the `count` features of least cost s_j = ‖v_j‖² / [H⁻¹]_jj, one after the other, from
/// `squares` and `diagonal`. Of equal costs the lower row goes. The host does not wait for a GPU.
RemovalSteps removal_steps(RemovalState& state, int64_t count);

}  // namespace dotresize
