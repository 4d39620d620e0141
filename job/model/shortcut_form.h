#pragma once

#include <cstdint>
#include <optional>

namespace dotresize {

/// How a sublayer's skip path between the widths k_in and k_out is stored: as one matrix
/// [k_in, k_out], or as the identity, cut or padded with zeros to these widths, plus a matrix of
/// low rank (docs/method.md, "Shortcuts"):
///   1 factor:   I - A·A'   A [k_in, rank], A' the first k_out rows of A, transposed (rows of zeros
///               are added if there are not so many); only for orthonormal maps
///   2 factors:  I + A·B    B [rank, k_out]; of oblique maps, whose M_inv is not M transposed
struct ShortcutForm {
  std::optional<int64_t> rank = {};  ///< absent: one matrix
  /// 1 or 2. Without a rank, or if that is 0, it only says whether the maps are oblique.
  int64_t factors = 1;

  bool dense() const { return !rank.has_value(); }
  bool operator==(const ShortcutForm&) const = default;
};

/// Nothing is stored: the identity.
inline constexpr ShortcutForm kIdentityShortcut{.rank = 0};

/// Numbers that are stored.
int64_t shortcut_parameters(const ShortcutForm& form, int64_t k_in, int64_t k_out);

/// Multiplications that a token takes.
int64_t shortcut_products(const ShortcutForm& form, int64_t k_in, int64_t k_out);

/// The largest rank that maps of d channels, rotated into each other, leave beside the identity.
int64_t exact_shortcut_rank(int64_t k_in, int64_t k_out, int64_t d, int64_t factors);

/// The form with fewest parameters of rank exact_shortcut_rank, or `most` if that is less; one
/// matrix if none has fewer.
ShortcutForm smallest_shortcut(int64_t k_in, int64_t k_out, int64_t d, int64_t factors,
                               std::optional<int64_t> most = {});

}  // namespace dotresize
