#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/kernels/svd.h"
#include "worker/maps/junction_map.h"

namespace dotresize {

/// What rotates a map into the one before it, and what the shortcut between them then has beside
/// the identity (docs/method.md, "Shortcuts"). float64.
struct Alignment {
  at::Tensor turn;  ///< Q [k_out, k_out], orthogonal: the map becomes M_out·Q
  at::Tensor
      A;  ///< [k_in, rank]: M_inᵀ·M_out·Q = I - A·A', A' being the first rows of A, transposed
  at::Tensor B = {};  ///< [rank, k_out], of oblique maps: M_inv_in·M_out·Q = I + A·B
};

/// M_in: [d, k_in], M_out: [d, k_out], both float64 with orthonormal columns. Q is nearest to
/// making M_inᵀ·M_out·Q the identity, cut or padded to [k_in, k_out] (Procrustes). `rank`: at most
/// exact_shortcut_rank (job/model/shortcut_form.h), with which the equation holds; with less A has
/// what differs most from the identity. `driver`: of the singular values, on a GPU.
Alignment align(const at::Tensor& M_in, const at::Tensor& M_out, int64_t rank,
                SvdDriver driver = SvdDriver::kGesvd);

/// Of oblique maps: the same Q, and two factors of at most `rank`; from exact_shortcut_rank on the
/// equation holds, with less A·B is the nearest to it. M_out: [d, k_out].
Alignment align_oblique(const JunctionMap& in, const at::Tensor& M_out, int64_t rank,
                        SvdDriver driver = SvdDriver::kGesvd);

/// From an oblique map to one of full width, which goes on as complete_basis(in.M): Q is the
/// identity, and undefined.
Alignment align_oblique_to_whole(const JunctionMap& in, const at::Tensor& basis, int64_t rank,
                                 SvdDriver driver = SvdDriver::kGesvd);

/// M [d, k] with orthonormal columns, and d - k more columns: [d, d], orthogonal. float64.
at::Tensor complete_basis(const at::Tensor& M);

}  // namespace dotresize
