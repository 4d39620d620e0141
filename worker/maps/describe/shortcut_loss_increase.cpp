// A token that enters the sublayer as y (k_in numbers, in the first map) leaves it with the error
// y·A·B if the product A·B is missing from its shortcut. With C = E[yᵀy] and the Fisher matrix F in
// the second map, the loss increases by ½ tr(C·A·B·F·Bᵀ·Aᵀ) = ½ Σ_ab (AᵀCA)_ab (BFBᵀ)_ab. The sum
// runs over all pairs of missing columns of A: those from the rank on.
#include "worker/maps/describe/shortcut_loss_increase.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "worker/maps/alignment.h"
#include "worker/maps/metric.h"

namespace dotresize {
namespace {

/// Returns AᵀCA. If x·L·V has the mean squares e, it is Z diag(e) Zᵀ with Z = (L⁻¹·M·A)ᵀ·V.
at::Tensor moments_of(const MetricBasis& junction, const at::Tensor& MA) {
  const at::Tensor whitened =
      at::linalg_solve_triangular(junction.factor, MA, /*upper=*/false);  // L⁻¹·M·A
  const at::Tensor Z = at::mm(whitened.t(), junction.vectors);
  return at::mm(Z * junction.values.clamp_min(0.0), Z.t());
}

/// Returns Z·F·Zᵀ for Z [r, d]. F is L·Lᵀ without its ridge.
at::Tensor loss_of(const MetricBasis& junction, const at::Tensor& Z) {
  const at::Tensor ZL = at::mm(Z, junction.factor);
  return at::mm(ZL, ZL.t()) - metric_ridge(junction.factor) * at::mm(Z, Z.t());
}

}  // namespace

JunctionMap map_of(const MetricBasis& junction, int64_t k) {
  return map_from_metric(junction.factor, junction.vectors.narrow(1, 0, k));
}

at::Tensor loss_increases_of_ranks(const MetricBasis& before, const JunctionMap& in,
                                   const MetricBasis& junction, const JunctionMap& out,
                                   const std::vector<int64_t>& ranks, SvdDriver driver) {
  const int64_t k_in = in.M.size(1);
  const int64_t k_out = out.M.size(1);
  const Alignment shortcut = align_oblique(in, out.M, std::min(k_in, k_out), driver);
  const at::Tensor written = at::mm(shortcut.B, at::mm(shortcut.turn.t(), out.M_inv));
  const at::Tensor products =
      moments_of(before, at::mm(in.M, shortcut.A)) * loss_of(junction, written);
  std::vector<int64_t> first;
  first.reserve(ranks.size());
  for (const int64_t rank : ranks) {
    first.push_back(std::min(products.size(0), rank + std::max<int64_t>(0, k_in - k_out)));
  }
  return corner_sums(products, first).clamp_min(0.0) / 2.0;
}

}  // namespace dotresize
