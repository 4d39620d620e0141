#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dotresize {

/// Element type of weights, as config.json and job files name it.
enum class Dtype { kFloat32, kFloat16, kBFloat16 };

/// "float32", "float16", "bfloat16".
std::string to_string(Dtype dtype);
/// Returns nullopt for an unknown name.
std::optional<Dtype> find_dtype(std::string_view name);
int64_t size_in_bytes(Dtype dtype);
/// Returns true if maps and weights are folded in float64 for an output of this dtype, false if in
/// float32 (worker/maps/fold.h).
bool folds_in_float64(Dtype output);

}  // namespace dotresize
