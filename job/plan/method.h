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
  /// Passes over the calibration tokens. Transport costs in the PCA basis need that basis first.
  int passes() const { return pca() && transport() ? 2 : 1; }

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
