#include "worker/checkpoint/dtypes.h"

#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 12> kDtypes = {{
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U32", at::kUInt32},
    {"U16", at::kUInt16},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
}};

}  // namespace

at::ScalarType torch_dtype(const std::string& safetensors_dtype) {
  for (const auto& [name, dtype] : kDtypes) {
    if (name == safetensors_dtype) return dtype;
  }
  throw InputError("dtype " + in_quotes(safetensors_dtype) + " is not supported");
}

std::string safetensors_dtype(at::ScalarType dtype) {
  for (const auto& [name, torch] : kDtypes) {
    if (torch == dtype) return std::string(name);
  }
  throw std::logic_error(std::string("no safetensors dtype for ") + c10::toString(dtype));
}

at::ScalarType scalar_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return at::kFloat;
    case Dtype::kFloat16:
      return at::kHalf;
    case Dtype::kBFloat16:
      return at::kBFloat16;
  }
  throw std::invalid_argument("no such Dtype");
}

}  // namespace dotresize
