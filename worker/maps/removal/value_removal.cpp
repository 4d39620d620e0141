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

class ValueRemoval {
 public:
  /// Takes H⁻¹ [f, f] and Vᵀ [f, d] of rotated values.
  ValueRemoval(at::Tensor inverse, at::Tensor read, AttentionHeads heads)
      : heads_(heads),
        dim_(read.size(0) / heads.query),
        inverse_(std::move(inverse)),
        read_(std::move(read)),
        removed_(at::zeros({heads.value, dim_}, read_.options().dtype(at::kBool))) {}

  void remove(int64_t count) {
    for (; count > 0; --count) remove_one_of_each();
  }
  /// Returns the remaining channels of each value head, ascending [value, left].
  at::Tensor kept() const {
    return at::nonzero(removed_.logical_not()).select(1, 1).reshape({heads_.value, -1});
  }
  /// Returns V [d, query · left] of the remaining channels.
  at::Tensor V() const { return read_.index_select(0, rows_of(kept())).t(); }
  const std::vector<double>& loss_increases() const { return loss_increases_; }

 private:
  int64_t sharing() const { return heads_.query / heads_.value; }
  /// Returns the rows of the value heads' `channels` [value, n] in all query heads, [query · n].
  at::Tensor rows_of(const at::Tensor& channels) const {
    const at::Tensor first = at::arange(heads_.query, channels.options()) * dim_;
    return (first.unsqueeze(1) + channels.repeat_interleave(sharing(), 0)).flatten();
  }
  at::Tensor costs() const;
  void remove_one_of_each();

  AttentionHeads heads_;
  int64_t dim_;
  at::Tensor inverse_;
  at::Tensor read_;
  at::Tensor removed_;  ///< [value, head_dim] bool
  std::vector<double> loss_increases_ = {0.0};
};

/// Returns the cost of each channel alone, [value, head_dim]; infinite once removed.
at::Tensor ValueRemoval::costs() const {
  // Entries of H⁻¹ between the query heads of a channel, [value, head_dim, sharing, sharing].
  at::Tensor blocks = inverse_.view({heads_.value, sharing(), dim_, heads_.value, sharing(), dim_})
                          .diagonal(0, 0, 3)  // [sharing, head_dim, sharing, head_dim, value]
                          .diagonal(0, 1, 3)  // [sharing, sharing, value, head_dim]
                          .permute({2, 3, 0, 1});
  const at::Tensor nothing = removed_.to(at::kDouble).view({heads_.value, dim_, 1, 1});
  blocks = blocks + nothing * at::eye(sharing(), read_.options());
  const at::Tensor of_channels = read_.view({heads_.value, sharing(), dim_, -1}).transpose(1, 2);
  const at::Tensor products = at::matmul(of_channels, of_channels.mT());
  return at::cholesky_solve(products, at::linalg_cholesky(blocks))
      .diagonal(0, -2, -1)
      .sum(-1)
      .masked_fill(removed_, std::numeric_limits<double>::infinity());
}

void ValueRemoval::remove_one_of_each() {
  const at::Tensor cheapest = costs().argmin(1, /*keepdim=*/true);
  removed_.scatter_(1, cheapest, true);
  const at::Tensor J = rows_of(cheapest);
  at::Tensor R = inverse_.index_select(0, J);
  const at::Tensor C = at::linalg_cholesky(R.index_select(1, J));
  R = at::linalg_solve_triangular(C, R, /*upper=*/false);
  const at::Tensor Y = at::linalg_solve_triangular(C, read_.index_select(0, J), /*upper=*/false);
  loss_increases_.push_back(loss_increases_.back() + 0.5 * Y.square().sum().item<double>());
  inverse_.addmm_(R.t(), R, 1.0, -1.0);
  read_.addmm_(R.t(), Y, 1.0, -1.0);
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
  ValueRemoval removal(std::move(inverse), multiply_heads(turned.inverses, V.t()), heads);
  removal.remove(dim - left);
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
      .removal.loss_increases();
}

CutValues remove_values(at::Tensor gram, const at::Tensor& weight, const at::Tensor& metric_factor,
                        AttentionHeads heads, int64_t left) {
  check_attention(gram, weight, heads, left, 1);
  if (left * heads.query == weight.size(1)) {
    const at::Tensor unturned = at::eye(left, weight.options());
    return {unturned.expand({heads.value, left, left}), weight.clone(), 0.0};
  }
  const RemovedChannels done = remove_channels(std::move(gram), weight, metric_factor, heads, left);
  const at::Tensor columns = done.removal.kept().unsqueeze(1).expand({-1, done.turns.size(1), -1});
  CutValues cut{done.turns.gather(2, columns), done.removal.V(),
                done.removal.loss_increases().back()};
  if (metric_factor.defined()) {
    cut.weight = at::linalg_solve_triangular(metric_factor.t(), cut.weight, /*upper=*/true);
  }
  return cut;
}

}  // namespace dotresize
