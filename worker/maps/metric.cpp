#include "worker/maps/metric.h"

#include <ATen/ATen.h>

#include <cmath>
#include <stdexcept>

#include "base/errors.h"

namespace dotresize {
namespace {

constexpr double kRidge = 0.01;  // relative to the mean of the diagonal; 0.001 to 0.3 work as well

}  // namespace

at::Tensor metric_factor(const at::Tensor& fisher) {
  const double mean = fisher.diagonal().mean().item<double>();
  if (!std::isfinite(mean)) throw NonFiniteError("the gradients of the loss are not finite");
  if (!(mean > 0)) throw std::runtime_error("all gradients of the loss are zero");
  at::Tensor ridged = fisher.clone();
  ridged.diagonal().add_(kRidge * mean);
  return at::linalg_cholesky(ridged);
}

at::Tensor gram_in_metric(const at::Tensor& gram, const at::Tensor& L) {
  const at::Tensor product = at::mm(L.t(), at::mm(gram, L));
  return (product + product.t()).div_(2.0);  // removes the asymmetry of rounding
}

JunctionMap map_from_metric(const at::Tensor& L, const at::Tensor& P) {
  const auto [Q, R] = at::linalg_qr(at::mm(L, P), "reduced");
  const at::Tensor columns = at::linalg_solve_triangular(L.t(), P, /*upper=*/true);  // L⁻ᵀ·P
  return {Q.contiguous(), at::mm(R, columns.t())};
}

}  // namespace dotresize
