#include "job/plan/method.h"

#include <algorithm>
#include <array>

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

const Method* find_method(std::string_view name) {
  const auto found = std::ranges::find(kMethods, name, &Method::name);
  return found == kMethods.end() ? nullptr : &*found;
}

}  // namespace dotresize
