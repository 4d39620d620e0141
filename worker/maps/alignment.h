#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/kernels/svd.h"
#include "worker/maps/junction_map.h"

namespace dotresize {

/// Rotation of a map into the map before it, and the rest of the shortcut between them beside the
/// identity (docs/method.md, "Shortcuts"). float64.
struct Alignment {
  at::Tensor turn;  ///< Q [k_out, k_out], orthogonal: the map becomes M_out·Q
  /// [k_in, rank]: M_inᵀ·M_out·Q = I - A·A', where A' is the transpose of A's first rows.
  at::Tensor A;
  at::Tensor B = {};  ///< [rank, k_out], oblique maps only: M_inv_in·M_out·Q = I + A·B
};

/// Aligns M_in [d, k_in] and M_out [d, k_out], both float64 with orthonormal columns. Q makes
/// M_inᵀ·M_out·Q nearest to the identity, cut or padded to [k_in, k_out] (Procrustes). `rank` is at
/// most exact_shortcut_rank (job/model/model_config.h). At that rank the equation is exact; below
/// it, A has the directions that differ most from the identity. `driver`: SVD driver on a GPU.
Alignment align(const at::Tensor& M_in, const at::Tensor& M_out, int64_t rank,
                SvdDriver driver = SvdDriver::kGesvd);

/// Aligns oblique maps. Q is the same; A and B have at most `rank` columns. From
/// exact_shortcut_rank on the equation is exact; below it, A·B is the best approximation. M_out:
/// [d, k_out].
Alignment align_oblique(const JunctionMap& in, const at::Tensor& M_out, int64_t rank,
                        SvdDriver driver = SvdDriver::kGesvd);

/// Aligns an oblique map with one of full width, complete_basis(in.M). Q is the identity, returned
/// as undefined.
Alignment align_oblique_to_whole(const JunctionMap& in, const at::Tensor& basis, int64_t rank,
                                 SvdDriver driver = SvdDriver::kGesvd);

/// Returns M [d, k], which has orthonormal columns, followed by d - k more columns: [d, d],
/// orthogonal, float64.
at::Tensor complete_basis(const at::Tensor& M);

/// Returns an orthogonal matrix [k, k], float64 on the CPU, the same in every run: a cosine
/// transform of channels with random signs. No entry exceeds sqrt(2/k). With M·R in place of a map
/// M, each channel has a small part of all channels of M, so quantizers find no channel with larger
/// weights than the others (docs/method.md, "Sharing maps").
at::Tensor spreading_rotation(int64_t k);

}  // namespace dotresize
