#pragma once

#include <cstdint>
#include <optional>

namespace dotresize {

/// Stored form of a sublayer's skip path between the widths k_in and k_out: one matrix [k_in,
/// k_out], or the identity, cut or zero-padded to these widths, plus a matrix of low rank
/// (docs/method.md, "Shortcuts"):
///   1 factor: I - A·A' with A [k_in, rank] and A' the transpose of A's first k_out rows (padded
///   with rows of zeros); only for orthonormal maps
///   2 factors: I + A·B with B [rank, k_out]; for oblique maps, whose M_inv is not Mᵀ
struct ShortcutForm {
  std::optional<int64_t> rank = {};  ///< absent: one matrix
  /// 1 or 2. If rank is absent or 0, it only says whether the maps are oblique.
  int64_t factors = 1;

  bool dense() const { return !rank.has_value(); }
  bool operator==(const ShortcutForm&) const = default;
};

/// The identity: nothing is stored.
inline constexpr ShortcutForm kIdentityShortcut{.rank = 0};

/// Number of stored parameters.
int64_t shortcut_parameters(const ShortcutForm& form, int64_t k_in, int64_t k_out);

/// Multiplications per token.
int64_t shortcut_products(const ShortcutForm& form, int64_t k_in, int64_t k_out);

/// The largest rank of the difference to the identity, for maps of d channels that are rotated into
/// each other.
int64_t exact_shortcut_rank(int64_t k_in, int64_t k_out, int64_t d, int64_t factors);

/// Returns the form with the fewest parameters, of rank exact_shortcut_rank or `most` if that is
/// less; one matrix if that is no larger.
ShortcutForm smallest_shortcut(int64_t k_in, int64_t k_out, int64_t d, int64_t factors,
                               std::optional<int64_t> most = {});

}  // namespace dotresize
