#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dotresize {

/// Element type of weights, as config.json and job files name it.
enum class Dtype { kFloat32, kFloat16, kBFloat16 };

/// "float32", "float16", "bfloat16".
inline std::string to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "float32";
    case Dtype::kFloat16:
      return "float16";
    case Dtype::kBFloat16:
      return "bfloat16";
  }
  throw std::invalid_argument("no such Dtype");
}

/// Returns nullopt for an unknown name.
inline std::optional<Dtype> find_dtype(std::string_view name) {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat16, Dtype::kBFloat16}) {
    if (to_string(dtype) == name) return dtype;
  }
  return std::nullopt;
}

inline int64_t size_in_bytes(Dtype dtype) { return dtype == Dtype::kFloat32 ? 4 : 2; }

/// Dtypes of the tensors of one checkpoint.
struct StoredDtypes {
  Dtype main = Dtype::kFloat32;              ///< most elements of the layers, and new tensors
  std::map<std::string, Dtype> others = {};  ///< by name: the tensors of another dtype

  Dtype of(const std::string& tensor) const {
    const auto found = others.find(tensor);
    return found == others.end() ? main : found->second;
  }
  /// True if a tensor whose name begins with `prefix` has another dtype.
  bool differ_within(const std::string& prefix) const {
    const auto found = others.lower_bound(prefix);
    return found != others.end() && found->first.starts_with(prefix);
  }
  void set(const std::string& tensor, Dtype dtype) {
    others.erase(tensor);
    if (dtype != main) others.emplace(tensor, dtype);
  }
  bool operator==(const StoredDtypes&) const = default;
};

/// "bfloat16", or "bfloat16, some float32" if the dtypes are mixed.
inline std::string to_string(const StoredDtypes& dtypes) {
  std::set<Dtype> others;
  for (const auto& [tensor, dtype] : dtypes.others) others.insert(dtype);
  std::string text = to_string(dtypes.main);
  for (const Dtype dtype : others) text += ", some " + to_string(dtype);
  return text;
}

/// Returns true if maps and weights are folded in float64 for an output of this dtype, false if in
/// float32 (worker/maps/fold.h).
inline bool folds_in_float64(Dtype output) { return size_in_bytes(output) > 2; }

}  // namespace dotresize
