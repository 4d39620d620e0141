#include "job/checkpoint/checkpoint_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace dotresize {

std::vector<int64_t> TensorPlace::stored_shape() const {
  std::vector<int64_t> stored = shape;
  if (transposed) std::swap(stored.at(stored.size() - 2), stored.back());
  return stored;
}

bool is_weight_dtype(const std::string& dtype) {
  constexpr std::array<std::string_view, 4> kWeightDtypes = {"F64", "F32", "F16", "BF16"};
  return std::ranges::count(kWeightDtypes, dtype) > 0;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace dotresize
