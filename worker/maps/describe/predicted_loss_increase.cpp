// A map keeps the first k entries of y = x·L·V. The part that it removes at a junction excludes
// what the junction before has removed already. With D = V_inᵀ·L_in⁻¹·L·V, entry a of the junction
// before is D_ab in entry b of this one, so Σ_(a ≥ k_in) e_in,a·D_ab² of the mean square e_b is
// gone before. The output of the sublayer between is taken as independent of its input. Entries
// have unit weight in the metric, except for the share of its ridge.
#include "worker/maps/describe/predicted_loss_increase.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "worker/maps/alignment.h"
#include "worker/maps/metric.h"

namespace dotresize {
namespace {

/// Returns, at each width, the sum from there on along the last dimension: [..., d] to [..., G].
at::Tensor sums_beyond(const at::Tensor& x, const std::vector<int64_t>& widths) {
  const at::Tensor sums = x.flip(-1).cumsum(-1).flip(-1);
  at::Tensor padded = at::constant_pad_nd(sums, {0, 1});  // the sum beyond d is zero
  return padded.index_select(-1, at::tensor(widths, at::kLong).to(x.device()));
}

/// Returns the share of the weight of y's d entries that does not come from the ridge, [d].
at::Tensor weights_without_ridge(const MetricBasis& junction) {
  const at::Tensor dual =
      at::linalg_solve_triangular(junction.factor.t(), junction.vectors, /*upper=*/true);
  return (1.0 - metric_ridge(junction.factor) * dual.square().sum(0)).clamp_min(0.0);
}

/// Returns, for each index in `first`, the sum of the products from that row and column on,
/// [first]. products: [n, n]; indices are 0 to n.
at::Tensor corner_sums(const at::Tensor& products, const std::vector<int64_t>& first) {
  return sums_beyond(sums_beyond(products, first).t(), first).diagonal();
}

}  // namespace

at::Tensor loss_increases_of_first(const MetricBasis& junction,
                                   const std::vector<int64_t>& widths) {
  const at::Tensor energies = junction.values.clamp_min(0.0) * weights_without_ridge(junction);
  return sums_beyond(energies, widths) / 2.0;
}

at::Tensor loss_increases_behind(const MetricBasis& before, const MetricBasis& junction,
                                 const std::vector<int64_t>& widths) {
  const at::Tensor columns = at::linalg_solve_triangular(
      before.factor, at::mm(junction.factor, junction.vectors), /*upper=*/false);
  const at::Tensor energies =
      at::mm(before.vectors.t(), columns).square_() * before.values.clamp_min(0.0).unsqueeze(1);
  const at::Tensor gone = sums_beyond(energies.t(), widths).t();  // [G, d]
  const at::Tensor left = (junction.values.clamp_min(0.0) - gone).abs_();
  return sums_beyond(left * weights_without_ridge(junction), widths) / 2.0;
}

at::Tensor loss_increases_of_shared(const MetricBasis& basis, const at::Tensor& gram,
                                    const at::Tensor& before, const at::Tensor& fisher,
                                    const std::vector<int64_t>& widths) {
  const at::Tensor to = at::mm(basis.factor, basis.vectors);
  const at::Tensor from =
      at::linalg_solve_triangular(basis.factor.t(), basis.vectors, /*upper=*/true);  // L⁻ᵀ·V
  const at::Tensor written = before.defined() ? gram - before : gram;
  const at::Tensor products =
      at::mm(to.t(), at::mm(written, to)) * at::mm(from.t(), at::mm(fisher, from));
  return corner_sums(products, widths).abs() / 2.0;
}

JunctionMap map_of(const MetricBasis& junction, int64_t k) {
  return map_from_metric(junction.factor, junction.vectors.narrow(1, 0, k));
}

// A token that enters the sublayer as y (k_in numbers, in the first map) leaves it with the error
// y·A·B if the product A·B is missing from its shortcut. With C = E[yᵀy] and the Fisher matrix F in
// the second map, the loss increases by ½ tr(C·A·B·F·Bᵀ·Aᵀ) = ½ Σ_ab (AᵀCA)_ab (BFBᵀ)_ab. The sum
// runs over all pairs of missing columns of A: those from the rank on.
at::Tensor loss_increases_of_ranks(const MetricBasis& before, const JunctionMap& in,
                                   const MetricBasis& junction, const JunctionMap& out,
                                   const std::vector<int64_t>& ranks, SvdDriver driver) {
  const int64_t k_in = in.M.size(1);
  const int64_t k_out = out.M.size(1);
  const Alignment shortcut = align_oblique(in, out.M, std::min(k_in, k_out), driver);
  const at::Tensor written = at::mm(shortcut.B, at::mm(shortcut.turn.t(), out.M_inv));
  at::Tensor products;
  {  // AᵀCA: x·L·V has the mean squares e, so it is Z diag(e) Zᵀ with Z = (L⁻¹·M·A)ᵀ·V.
    const at::Tensor whitened =
        at::linalg_solve_triangular(before.factor, at::mm(in.M, shortcut.A), /*upper=*/false);
    const at::Tensor Z = at::mm(whitened.t(), before.vectors);
    products = at::mm(Z * before.values.clamp_min(0.0), Z.t());
  }
  {  // BFBᵀ: F is L·Lᵀ without its ridge.
    const at::Tensor BL = at::mm(written, junction.factor);
    products = products *
               (at::mm(BL, BL.t()) - metric_ridge(junction.factor) * at::mm(written, written.t()));
  }
  std::vector<int64_t> first;
  first.reserve(ranks.size());
  for (const int64_t rank : ranks) {
    first.push_back(std::min(products.size(0), rank + std::max<int64_t>(0, k_in - k_out)));
  }
  return corner_sums(products, first).clamp_min(0.0) / 2.0;
}

TokenLossIncreases::TokenLossIncreases(const MetricBasis& basis, std::vector<int64_t> grid)
    : widths(std::move(grid)),
      to_y(at::mm(basis.factor, basis.vectors).to(at::kFloat)),
      to_h(at::linalg_solve_triangular(basis.factor.t(), basis.vectors, /*upper=*/true)
               .to(at::kFloat)),
      sums(at::zeros({static_cast<int64_t>(widths.size())}, basis.values.options())) {}

void TokenLossIncreases::add(const at::Tensor& x, const at::Tensor& g) {
  const auto rows = [](const at::Tensor& of_tokens) {
    return of_tokens.reshape({-1, of_tokens.size(-1)});
  };
  const at::Tensor products = at::mm(rows(x), to_y) * at::mm(rows(g), to_h);
  const at::Tensor changes = sums_beyond(products.to(at::kDouble), widths);
  sums = sums + changes.square().sum(0) / 2.0;
}

}  // namespace dotresize
