#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/linalg_svd.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace dotresize {

/// Algorithms of cuSOLVER: QR iteration or Jacobi's method. The faster one depends on the GPU, its
/// libraries and the size, by a factor of several. Their results differ by rounding.
enum class SvdDriver { kGesvd, kGesvdj };

/// "gesvd" and "gesvdj", as libtorch and cuSOLVER call them.
inline std::string_view to_string(SvdDriver driver) {
  return driver == SvdDriver::kGesvd ? "gesvd" : "gesvdj";
}

/// Returns the driver of this name, if there is one.
inline std::optional<SvdDriver> svd_driver_named(std::string_view name) {
  for (const SvdDriver driver : {SvdDriver::kGesvd, SvdDriver::kGesvdj}) {
    if (to_string(driver) == name) return driver;
  }
  return std::nullopt;
}

/// Returns P, values (descending) and Wt of E [m, n] = P[:, :v]·diag(values)·Wt[:v], v = min(m, n),
/// in E's floating dtype. `full_matrices`: P is [m, m] and Wt [n, n]; otherwise [m, v] and [v, n].
/// The CPU uses LAPACK, whatever `driver` is.
inline std::tuple<at::Tensor, at::Tensor, at::Tensor> svd(const at::Tensor& E, bool full_matrices,
                                                          SvdDriver driver) {
  if (!E.is_cuda()) return at::linalg_svd(E, full_matrices);
  return at::linalg_svd(E, full_matrices, to_string(driver));
}

}  // namespace dotresize
