#pragma once

#include <ATen/core/Tensor.h>

#include "worker/maps/junction_map.h"

namespace dotresize {

// Maps in the metric of the loss (docs/method.md, "The metric of the loss"). With F = L·Lᵀ the
// Fisher matrix of the junction, an error e of the residual stream increases the loss by ‖e·L‖²/2.
// So a method is applied to x·L in place of x; its Gram matrix is LᵀGL. Matrices are float64 [d,
// d], on one device.

/// Returns L, lower triangular, of F + 0.01·mean(diag F)·I. The ridge gives errors a cost where the
/// sample of gradients is too small. fisher: F up to a factor, symmetric. Throws std::runtime_error
/// if it is zero, NonFiniteError if it is not finite.
at::Tensor metric_factor(const at::Tensor& fisher);

/// Returns Lᵀ·G·L.
at::Tensor gram_in_metric(const at::Tensor& gram, const at::Tensor& L);

/// Returns the map that keeps x·L·P·Pᵀ of x·L, where P [d, k] has orthonormal columns. With L·P =
/// Q·R it is M = Q, M_inv = R·Pᵀ·L⁻¹. M is orthonormal and M_inv·M = I, but M_inv is not Mᵀ.
JunctionMap map_from_metric(const at::Tensor& L, const at::Tensor& P);

}  // namespace dotresize
