#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace dotresize {

/// Algorithms of cuSOLVER: QR iteration or Jacobi's method. The faster one depends on the GPU, its
/// libraries and the size, by a factor of several. Their results differ by rounding.
enum class SvdDriver { kGesvd, kGesvdj };

/// "gesvd" and "gesvdj", as libtorch and cuSOLVER call them.
std::string_view to_string(SvdDriver driver);

/// Returns the driver of this name, if there is one.
std::optional<SvdDriver> svd_driver_named(std::string_view name);

/// Returns P, values (descending) and Wt of E [m, n] = P[:, :v]·diag(values)·Wt[:v], v = min(m, n),
/// in E's floating dtype. `full_matrices`: P is [m, m] and Wt [n, n]; otherwise [m, v] and [v, n].
/// The CPU uses LAPACK, whatever `driver` is.
std::tuple<at::Tensor, at::Tensor, at::Tensor> svd(const at::Tensor& E, bool full_matrices,
                                                   SvdDriver driver);

}  // namespace dotresize
