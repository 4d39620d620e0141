#include "job/model/dtype.h"

#include <stdexcept>

namespace dotresize {

std::string to_string(Dtype dtype) {
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

std::optional<Dtype> find_dtype(std::string_view name) {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat16, Dtype::kBFloat16}) {
    if (to_string(dtype) == name) return dtype;
  }
  return std::nullopt;
}

int64_t size_in_bytes(Dtype dtype) { return dtype == Dtype::kFloat32 ? 4 : 2; }

bool folds_in_float64(Dtype output) { return size_in_bytes(output) > 2; }

}  // namespace dotresize
