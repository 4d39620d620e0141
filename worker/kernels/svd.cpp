#include "worker/kernels/svd.h"

#include <ATen/ATen.h>

namespace dotresize {

std::string_view to_string(SvdDriver driver) {
  return driver == SvdDriver::kGesvd ? "gesvd" : "gesvdj";
}

std::optional<SvdDriver> svd_driver_named(std::string_view name) {
  for (const SvdDriver driver : {SvdDriver::kGesvd, SvdDriver::kGesvdj}) {
    if (to_string(driver) == name) return driver;
  }
  return std::nullopt;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> svd(const at::Tensor& E, bool full_matrices,
                                                   SvdDriver driver) {
  if (!E.is_cuda()) return at::linalg_svd(E, full_matrices);
  return at::linalg_svd(E, full_matrices, to_string(driver));
}

}  // namespace dotresize
