// [L L'] and [M_out N] are orthogonal; L is the first min(k_in, k_out) columns of M_in. The blocks
// of the orthogonal matrix [L L']ᵀ [M_out N] = [S X; Y Z] have a common decomposition (the CS
// decomposition: Golub and Van Loan, "Matrix Computations", section 2.5.4):
//
//   S = U C Vᵀ    X = -U s Rᵀ    Y = P s Vᵀ    Z = P C Rᵀ    C² + s² = 1
//
// So only the small block Z = P C Rᵀ is decomposed:
//
//   S - X R (1 + C)⁻¹ Pᵀ Y = U Vᵀ                  the transpose of Q
//   X R (1 + C)^-½ = -U sqrt(1 - C)                A (its sign is arbitrary)
//
// Nothing is divided by small numbers, and Q is orthogonal even if the spans are very close. If
// k_in < k_out, Z has more rows than columns: P has extra columns P', and Q the columns Yᵀ P'. If
// k_in > k_out, L' begins with the other columns of M_in. Their rows of Y Q are P s Uᵀ with the
// first rows of P, so the rows of A below -U sqrt(1 - C) are P (1 + C)^½.
#include "worker/maps/alignment.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <tuple>
#include <vector>

namespace dotresize {
namespace {

/// Returns the product A·B of at most this rank that is nearest to E·Vᵀ. V has orthonormal columns.
Alignment two_factors(const at::Tensor& E, const at::Tensor& V, int64_t rank, SvdDriver driver) {
  const auto [P, values, Wt] = svd(E, /*full_matrices=*/false, driver);
  const int64_t kept = std::min(rank, values.size(0));
  const at::Tensor root = values.narrow(0, 0, kept).sqrt();
  return {.turn = {},
          .A = P.narrow(1, 0, kept) * root,
          .B = root.unsqueeze(1) * at::mm(Wt.narrow(0, 0, kept), V.t())};
}

/// Returns an orthonormal basis, in k_out channels, of the directions that align() changes. A
/// [k_in, r] is its result.
at::Tensor differing(const at::Tensor& A, int64_t k_in, int64_t k_out) {
  const int64_t common = std::min(k_in, k_out);
  at::Tensor columns = at::empty({k_out, 0}, A.options());
  if (A.size(1) > 0) {
    const at::Tensor Q = std::get<0>(at::linalg_qr(A.narrow(0, 0, common), "reduced"));
    columns = at::constant_pad_nd(Q, {0, 0, 0, k_out - common});
  }
  const at::Tensor others = at::eye(k_out, A.options()).narrow(1, common, k_out - common);
  return at::cat({columns, others}, 1);
}

}  // namespace

Alignment align(const at::Tensor& M_in, const at::Tensor& M_out, int64_t rank, SvdDriver driver) {
  const int64_t d = M_in.size(0);
  const int64_t k_in = M_in.size(1);
  const int64_t k_out = M_out.size(1);
  const int64_t common = std::min(k_in, k_out);
  const at::Tensor basis = complete_basis(M_in);
  if (k_out == d) return {at::mm(M_out.t(), basis), at::empty({k_in, 0}, M_in.options())};
  const at::Tensor L = basis.narrow(1, 0, common);
  const at::Tensor rest = basis.narrow(1, common, d - common);
  const at::Tensor N = complete_basis(M_out).narrow(1, k_out, d - k_out);
  const at::Tensor Y = at::mm(rest.t(), M_out);
  const auto [P, C, Rt] = svd(at::mm(rest.t(), N), /*full_matrices=*/k_in < k_out, driver);
  const int64_t values = C.size(0);
  const at::Tensor P_values = P.narrow(1, 0, values);
  const at::Tensor XR = at::mm(at::mm(L.t(), N), Rt.t());

  Alignment found;
  found.turn = (at::mm(L.t(), M_out) - at::mm(XR / (1.0 + C), at::mm(P_values.t(), Y))).t();
  if (k_in < k_out) {
    const at::Tensor others = P.narrow(1, values, P.size(1) - values);
    found.turn = at::cat({found.turn, at::mm(Y.t(), others)}, 1);
  }
  const at::Tensor root = (1.0 + C).sqrt();
  const at::Tensor lower = P_values.narrow(0, 0, k_in - common) * root;
  // The smallest cosines differ most from the identity. They come last.
  found.A = at::cat({XR / root, lower}, 0).narrow(1, values - rank, rank);
  return found;
}

// A token that lies in both spans is the same in both maps, oblique or not. So M_inv_in·M_out·Q - I
// is zero except on the columns of the A of M_inᵀ·M_out·Q, cut or padded to k_out rows, and on the
// columns of M_out beyond k_in.
Alignment align_oblique(const JunctionMap& in, const at::Tensor& M_out, int64_t rank,
                        SvdDriver driver) {
  const int64_t d = in.M.size(0);
  const int64_t k_in = in.M.size(1);
  const int64_t k_out = M_out.size(1);
  const int64_t common = std::min(k_in, k_out);
  const Alignment orthonormal = align(in.M, M_out, std::min(common, d - k_out), driver);
  const at::Tensor V = differing(orthonormal.A, k_in, k_out);
  const at::Tensor kept = at::constant_pad_nd(V.narrow(0, 0, common), {0, 0, 0, k_in - common});
  const at::Tensor E = at::mm(in.M_inv, at::mm(M_out, at::mm(orthonormal.turn, V))) - kept;
  Alignment found = two_factors(E, V, rank, driver);
  found.turn = orthonormal.turn;
  return found;
}

Alignment align_oblique_to_whole(const JunctionMap& in, const at::Tensor& basis, int64_t rank,
                                 SvdDriver driver) {
  const int64_t d = in.M.size(0);
  const int64_t k = in.M.size(1);
  const at::Tensor others = at::eye(d, basis.options()).narrow(1, k, d - k);
  return two_factors(at::mm(in.M_inv, basis.narrow(1, k, d - k)), others, rank, driver);
}

at::Tensor complete_basis(const at::Tensor& M) {
  const int64_t k = M.size(1);
  const at::Tensor Q = std::get<0>(at::linalg_qr(M, "complete"));
  return at::cat({M, Q.narrow(1, k, M.size(0) - k)}, 1);
}

at::Tensor spreading_rotation(int64_t k) {
  // R_ij = s_i·sqrt(2/k)·cos(π(2i+1)j / 2k) with random signs s; column 0 is divided by sqrt(2).
  // The angle is reduced in integers, because the cosine of a large angle would be rounded.
  const at::Tensor index = at::arange(k, at::kLong);
  const auto channels = static_cast<double>(k);
  at::Tensor rotation = at::outer(2 * index + 1, index).remainder_(4 * k).to(at::kDouble);
  rotation.mul_(std::numbers::pi / (2.0 * channels)).cos_().mul_(std::sqrt(2.0 / channels));
  rotation.select(1, 0).mul_(std::sqrt(0.5));
  std::mt19937 bits;  // the C++ standard fixes its numbers
  std::vector<double> signs(static_cast<size_t>(k));
  for (double& sign : signs) sign = (bits() & 1u) == 0 ? 1.0 : -1.0;
  return rotation.mul_(at::tensor(signs, at::kDouble).unsqueeze(1));
}

}  // namespace dotresize
