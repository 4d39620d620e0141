#include "job/plan/method.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace dotresize {
namespace {

constexpr std::array<Method, 4> kMethods = {{
    {"magnitude", Basis::kIdentity, MapKind::kSelection},
    {"dotresize", Basis::kIdentity, MapKind::kTransport},
    {"slicegpt", Basis::kPca, MapKind::kSelection},
    {"pca_dotresize", Basis::kPca, MapKind::kTransport},
}};

}  // namespace

std::span<const Method> methods() { return kMethods; }

const Method& method_named(std::string_view name) {
  const auto found = std::ranges::find(kMethods, name, &Method::name);
  if (found == kMethods.end()) throw std::invalid_argument("no such method: " + std::string(name));
  return *found;
}

std::string to_string(Metric metric) { return metric == Metric::kFisher ? "fisher" : "activation"; }

}  // namespace dotresize
