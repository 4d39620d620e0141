#pragma once

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dotresize {

/// Coordinates in which a map is computed (docs/method.md, "Maps").
enum class Basis {
  kIdentity,  ///< the channels themselves
  kPca,       ///< eigenvectors of the Gram matrix
};

/// Construction of the k columns of a map from its support.
enum class MapKind {
  kSelection,  ///< the channels of the support; the others are dropped
  kTransport,  ///< all channels merged onto the support by optimal transport, then QR
};

/// Sums over the calibration tokens, of activations z in the basis of a map (docs/method.md,
/// "Moments").
struct MapSums {
  bool abs_sum = false;  ///< Σ_t |z_t|
  bool cost = false;     ///< Σ_t |z_ti − z_tj|

  bool any() const { return abs_sum || cost; }
  bool contain(const MapSums& others) const {
    return (abs_sum || !others.abs_sum) && (cost || !others.cost);
  }
  bool operator==(const MapSums&) const = default;
};

/// Sums that a map needs besides the Gram matrix, which the first pass over the tokens takes. In
/// the identity basis the first pass takes these sums too. In the PCA basis a second pass does,
/// because the basis must be known first.
struct SumsOfPasses {
  MapSums first;
  MapSums second;

  const MapSums& in_basis() const { return second.any() ? second : first; }  ///< from either pass
};

/// Sums of each kind of map: a row of kMapKinds.
struct SumsOfKind {
  MapKind kind;
  MapSums identity;  ///< in the identity basis
  MapSums pca;       ///< in the PCA basis
};

inline constexpr std::array<SumsOfKind, 2> kMapKinds = {{
    {MapKind::kSelection, {}, {}},
    {MapKind::kTransport, {.cost = true}, {.abs_sum = true, .cost = true}},
}};

/// Returns the sums of a map by pass. Throws std::invalid_argument if the kind has no row.
inline SumsOfPasses sums_of_passes(Basis basis, MapKind kind) {
  const auto found = std::ranges::find(kMapKinds, kind, &SumsOfKind::kind);
  if (found == kMapKinds.end()) throw std::invalid_argument("no such MapKind");
  return basis == Basis::kPca ? SumsOfPasses{{}, found->pca} : SumsOfPasses{found->identity, {}};
}

/// Metric in which a map leaves out as little as possible (`method.metric`; docs/method.md, "The
/// metric of the loss").
enum class Metric {
  kActivation,  ///< metric of the activations
  kFisher,      ///< metric of the loss
};

/// "activation", "fisher".
inline std::string to_string(Metric metric) {
  return metric == Metric::kFisher ? "fisher" : "activation";
}

/// One method: a row of kMethods.
struct Method {
  std::string_view name;  ///< name in job files: "pca_dotresize"
  Basis basis = Basis::kPca;
  MapKind map = MapKind::kTransport;

  bool pca() const { return basis == Basis::kPca; }
  bool transport() const { return map == MapKind::kTransport; }
  SumsOfPasses sums() const { return sums_of_passes(basis, map); }
  int passes() const { return sums().second.any() ? 2 : 1; }  ///< over the calibration tokens

  bool operator==(const Method&) const = default;
};

/// All methods, in the order of the documentation.
inline constexpr std::array<Method, 4> kMethods = {{
    {"magnitude", Basis::kIdentity, MapKind::kSelection},
    {"dotresize", Basis::kIdentity, MapKind::kTransport},
    {"slicegpt", Basis::kPca, MapKind::kSelection},
    {"pca_dotresize", Basis::kPca, MapKind::kTransport},
}};

/// Returns the method of that name. Throws std::invalid_argument if there is none.
inline const Method& method_named(std::string_view name) {
  const auto found = std::ranges::find(kMethods, name, &Method::name);
  if (found == kMethods.end()) throw std::invalid_argument("no such method: " + std::string(name));
  return *found;
}

}  // namespace dotresize
