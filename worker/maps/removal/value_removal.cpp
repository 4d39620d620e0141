// With V = Lᵀ·W a set J of channels costs s_J = ‖C⁻¹ V_Jᵀ‖², where C Cᵀ = [H⁻¹]_JJ. Its removal is
// a block step of a Cholesky decomposition of H⁻¹, with R = C⁻¹ [H⁻¹]_J and Y = C⁻¹ V_Jᵀ:
//   H⁻¹ ← H⁻¹ − Rᵀ R ,   Vᵀ ← Vᵀ − Rᵀ Y .
// The set J of a channel has one column of each of its query heads. Each step removes the cheapest
// channel of every value head together.
#include "worker/maps/removal/value_removal.h"

#include <ATen/ATen.h>

#include <functional>
#include <limits>
#include <utility>

#include "worker/maps/removal/feature_removal.h"

namespace dotresize {
namespace {

constexpr double kTurnRidge = 1e-9;  // relative to the mean of the diagonal

/// T of each value head and its inverse, [value, head_dim, head_dim].
struct Turns {
  at::Tensor turns;
  at::Tensor inverses;
};

/// Sums of_head over the query heads of each value head: [value, head_dim, head_dim].
at::Tensor sum_over_queries(AttentionHeads heads, int64_t dim, const at::TensorOptions& options,
                            const std::function<at::Tensor(int64_t first)>& of_head) {
  at::Tensor sums = at::zeros({heads.value, dim, dim}, options);
  for (int64_t h = 0; h < heads.query; ++h) {
    sums[h / (heads.query / heads.value)].add_(of_head(h * dim));
  }
  return sums;
}

/// Returns T = K B with columns scaled to length 1, where seen = Σ A_hh, S = Σ V_hᵀ V_h = K Kᵀ and
/// Kᵀ seen K = B diag(e) Bᵀ.
Turns turns_of(const at::Tensor& seen, const at::Tensor& V, AttentionHeads heads) {
  const int64_t dim = seen.size(1);
  at::Tensor read = sum_over_queries(heads, dim, V.options(), [&](int64_t first) {
    const at::Tensor of_head = V.narrow(1, first, dim);
    return at::mm(of_head.t(), of_head);
  });
  const at::Tensor mean = read.diagonal(0, -2, -1).mean(-1, /*keepdim=*/true);
  read.diagonal(0, -2, -1).add_(at::where(mean > 0, mean * kTurnRidge, 1.0));
  const at::Tensor K = at::linalg_cholesky(read);
  const at::Tensor B = std::get<1>(at::linalg_eigh(at::matmul(K.mT(), at::matmul(seen, K))));
  const at::Tensor T = at::matmul(K, B);
  const at::Tensor lengths = at::linalg_vector_norm(T, 2, at::IntArrayRef{-2}, /*keepdim=*/true);
  // B⁻¹ K⁻¹ = (K⁻ᵀ B)ᵀ.
  const at::Tensor inverse = at::linalg_solve_triangular(K.mT(), B, /*upper=*/true).mT();
  return {T / lengths, lengths.mT() * inverse};
}

/// Multiplies the rows of each query head in `rows` [query · head_dim, n] from the left by the
/// matrix of its value head.
at::Tensor multiply_heads(const at::Tensor& matrices, const at::Tensor& rows) {
  const int64_t n = rows.size(1);
  const at::Tensor by_head = rows.reshape({matrices.size(0), -1, matrices.size(2), n});
  return at::matmul(matrices.unsqueeze(1), by_head).reshape({-1, n});
}

struct ValueRemoval {
  /// Removes the cheapest channel of each value head.
  void remove_one_of_each();
  /// Returns the rows of the value heads' `channels` [value, n] in all query heads, [query · n].
  at::Tensor rows_of(const at::Tensor& channels) const {
    const at::Tensor first = at::arange(heads.query, channels.options()) * dim;
    return (first.unsqueeze(1) + channels.repeat_interleave(sharing, 0)).flatten();
  }

  AttentionHeads heads;
  at::Tensor inverse;  ///< H⁻¹ [f, f] of rotated values
  at::Tensor read;     ///< Vᵀ [f, d] of rotated values
  int64_t dim = read.size(0) / heads.query;
  int64_t sharing = heads.query / heads.value;
  at::Tensor removed = at::zeros({heads.value, dim}, read.options().dtype(at::kBool));
  std::vector<double> loss_increases = {0.0};
};

void ValueRemoval::remove_one_of_each() {
  // Entries of H⁻¹ between the query heads of a channel, [value, head_dim, sharing, sharing].
  at::Tensor blocks = inverse.view({heads.value, sharing, dim, heads.value, sharing, dim})
                          .diagonal(0, 0, 3)  // [sharing, head_dim, sharing, head_dim, value]
                          .diagonal(0, 1, 3)  // [sharing, sharing, value, head_dim]
                          .permute({2, 3, 0, 1});
  const at::Tensor nothing = removed.to(at::kDouble).view({heads.value, dim, 1, 1});
  blocks = blocks + nothing * at::eye(sharing, read.options());
  const at::Tensor of_channels = read.view({heads.value, sharing, dim, -1}).transpose(1, 2);
  const at::Tensor products = at::matmul(of_channels, of_channels.mT());
  // The cost of each channel alone, [value, head_dim]; infinite once removed.
  const at::Tensor costs = at::cholesky_solve(products, at::linalg_cholesky(blocks))
                               .diagonal(0, -2, -1)
                               .sum(-1)
                               .masked_fill(removed, std::numeric_limits<double>::infinity());

  const at::Tensor cheapest = costs.argmin(1, /*keepdim=*/true);
  removed.scatter_(1, cheapest, true);
  const at::Tensor J = rows_of(cheapest);
  at::Tensor R = inverse.index_select(0, J);
  const at::Tensor C = at::linalg_cholesky(R.index_select(1, J));
  R = at::linalg_solve_triangular(C, R, /*upper=*/false);
  const at::Tensor Y = at::linalg_solve_triangular(C, read.index_select(0, J), /*upper=*/false);
  loss_increases.push_back(loss_increases.back() + 0.5 * Y.square().sum().item<double>());
  inverse.addmm_(R.t(), R, 1.0, -1.0);
  read.addmm_(R.t(), Y, 1.0, -1.0);
}

struct RemovedChannels {
  at::Tensor turns;  ///< [value, head_dim, head_dim]
  ValueRemoval removal;
};

RemovedChannels remove_channels(at::Tensor gram, const at::Tensor& weight,
                                const at::Tensor& metric_factor, AttentionHeads heads,
                                int64_t left) {
  const int64_t dim = weight.size(1) / heads.query;
  const at::Tensor V = metric_factor.defined() ? at::mm(metric_factor.t(), weight) : weight;
  const at::Tensor seen = sum_over_queries(heads, dim, V.options(), [&](int64_t first) {
    return gram.narrow(0, first, dim).narrow(1, first, dim);
  });
  at::Tensor inverse = ridged_inverse(std::move(gram));
  const Turns turned = turns_of(seen, V, heads);
  inverse = multiply_heads(turned.inverses, inverse);
  inverse = multiply_heads(turned.inverses, inverse.t());
  ValueRemoval removal{.heads = heads,
                       .inverse = std::move(inverse),
                       .read = multiply_heads(turned.inverses, V.t())};
  for (int64_t count = dim - left; count > 0; --count) removal.remove_one_of_each();
  return {turned.turns, std::move(removal)};
}

void check_attention(const at::Tensor& gram, const at::Tensor& weight, AttentionHeads heads,
                     int64_t left, int64_t least) {
  const int64_t all = weight.size(1);
  TORCH_CHECK(heads.value > 0 && heads.query % heads.value == 0 && all % heads.query == 0,
              heads.query, " query heads of ", heads.value, " value heads do not make ", all,
              " columns");
  TORCH_CHECK(left >= least && left <= all / heads.query, "between ", least, " and ",
              all / heads.query, " channels of a head can be left, not ", left);
  TORCH_CHECK(gram.dim() == 2 && gram.size(0) == all && gram.size(1) == all,
              "a Gram matrix of shape ", gram.sizes(), " is not one of ", all, " columns");
}

}  // namespace

std::vector<double> value_removal_loss_increases(at::Tensor gram, const at::Tensor& weight,
                                                 const at::Tensor& metric_factor,
                                                 AttentionHeads heads, int64_t left) {
  check_attention(gram, weight, heads, left, 0);
  if (left * heads.query == weight.size(1)) return {0.0};
  return remove_channels(std::move(gram), weight, metric_factor, heads, left)
      .removal.loss_increases;
}

CutValues remove_values(at::Tensor gram, const at::Tensor& weight, const at::Tensor& metric_factor,
                        AttentionHeads heads, int64_t left) {
  check_attention(gram, weight, heads, left, 1);
  if (left * heads.query == weight.size(1)) {
    const at::Tensor unturned = at::eye(left, weight.options());
    return {unturned.expand({heads.value, left, left}), weight.clone(), 0.0};
  }
  const RemovedChannels done = remove_channels(std::move(gram), weight, metric_factor, heads, left);
  const ValueRemoval& removal = done.removal;
  // The remaining channels of each value head, ascending [value, left].
  const at::Tensor kept =
      at::nonzero(removal.removed.logical_not()).select(1, 1).reshape({heads.value, -1});
  CutValues cut{
      done.turns.gather(2, kept.unsqueeze(1).expand({-1, done.turns.size(1), -1})),
      removal.read.index_select(0, removal.rows_of(kept)).t(),  // V of the remaining channels
      removal.loss_increases.back()};
  if (metric_factor.defined()) {
    cut.weight = at::linalg_solve_triangular(metric_factor.t(), cut.weight, /*upper=*/true);
  }
  return cut;
}

}  // namespace dotresize
