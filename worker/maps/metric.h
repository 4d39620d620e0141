#pragma once

#include <ATen/core/Tensor.h>

#include "worker/maps/junction_map.h"

namespace dotresize {

// Maps in the metric of the loss (docs/method.md, "The metric of the loss"). With F = L·Lᵀ the
// Fisher matrix of the junction, an error e of the residual stream raises the loss by ‖e·L‖²/2. So
// everything that a method does with x it does with x·L, whose Gram matrix is LᵀGL. Matrices are
// float64 [d, d], on one device.

/// L, lower triangular, of F + 0.01·mean(diag F)·I: where the sample of gradients says little,
/// errors are not free. fisher: F up to a factor, symmetric. Throws std::runtime_error if it is
/// zero, NonFiniteError if it is not finite.
at::Tensor metric_factor(const at::Tensor& fisher);

/// What metric_factor has added to the diagonal of F.
double metric_ridge(const at::Tensor& L);

/// F of metric_factor's L.
at::Tensor fisher_of(const at::Tensor& L);

/// Lᵀ·G·L.
at::Tensor gram_in_metric(const at::Tensor& gram, const at::Tensor& L);

/// The map that keeps x·L·P·Pᵀ of x·L, P [d, k] having orthonormal columns: with the decomposition
/// L·P = Q·R it is M = Q, M_inv = R·Pᵀ·L⁻¹. M is orthonormal and M_inv·M = I, but M_inv is not Mᵀ.
JunctionMap map_from_metric(const at::Tensor& L, const at::Tensor& P);

}  // namespace dotresize
