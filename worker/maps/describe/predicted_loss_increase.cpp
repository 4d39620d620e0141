// A map keeps the first k entries of y = x·L·V. The part that it removes at a junction excludes
// what the junction before has removed already. With D = V_inᵀ·L_in⁻¹·L·V, entry a of the junction
// before is D_ab in entry b of this one, so Σ_(a ≥ k_in) e_in,a·D_ab² of the mean square e_b is
// gone before. The output of the sublayer between is taken as independent of its input. Entries
// have unit weight in the metric, except for the share of its ridge.
#include "worker/maps/describe/predicted_loss_increase.h"

#include <ATen/ATen.h>

#include <utility>

#include "worker/maps/metric.h"

namespace dotresize {
namespace {

at::Tensor index_of(const std::vector<int64_t>& widths, at::Device device) {
  return at::tensor(widths, at::kLong).to(device);
}

/// Returns, at each width, the sum from there on along the last dimension: [..., d] to [..., G].
at::Tensor sums_beyond(const at::Tensor& x, const std::vector<int64_t>& widths) {
  const at::Tensor sums = x.flip(-1).cumsum(-1).flip(-1);
  at::Tensor padded = at::constant_pad_nd(sums, {0, 1});  // the sum beyond d is zero
  return padded.index_select(-1, index_of(widths, x.device()));
}

/// Returns the share of the weight of y's d entries that does not come from the ridge, [d].
at::Tensor weights_without_ridge(const MetricBasis& junction) {
  const at::Tensor dual =
      at::linalg_solve_triangular(junction.factor.t(), junction.vectors, /*upper=*/true);
  return (1.0 - metric_ridge(junction.factor) * dual.square().sum(0)).clamp_min(0.0);
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

at::Tensor corner_sums(const at::Tensor& products, const std::vector<int64_t>& first) {
  return sums_beyond(sums_beyond(products, first).t(), first).diagonal();
}

TokenLossIncreases::TokenLossIncreases(const MetricBasis& basis, std::vector<int64_t> widths)
    : widths_(std::move(widths)),
      of_x_(at::mm(basis.factor, basis.vectors).to(at::kFloat)),
      of_g_(at::linalg_solve_triangular(basis.factor.t(), basis.vectors, /*upper=*/true)
                .to(at::kFloat)),
      sums_(at::zeros({static_cast<int64_t>(widths_.size())}, basis.values.options())) {}

void TokenLossIncreases::add(const at::Tensor& x, const at::Tensor& g) {
  const auto rows = [](const at::Tensor& of_tokens) {
    return of_tokens.reshape({-1, of_tokens.size(-1)});
  };
  const at::Tensor products = at::mm(rows(x), of_x_) * at::mm(rows(g), of_g_);
  const at::Tensor changes = sums_beyond(products.to(at::kDouble), widths_);
  sums_ = sums_ + changes.square().sum(0) / 2.0;
}

}  // namespace dotresize
