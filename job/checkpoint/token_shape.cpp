#include "job/checkpoint/token_shape.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "job/checkpoint/safetensors_header.h"

namespace dotresize {

TokenShape token_shape(const SafetensorsHeader& header, const std::string& origin) {
  constexpr std::array<std::string_view, 7> kIntegers = {"I64", "I32", "I16", "I8",
                                                         "U32", "U16", "U8"};
  const auto found = header.tensors.find(kTokensTensor);
  if (found == header.tensors.end()) {
    throw InputError(origin + ": tensor '" + kTokensTensor + "' is not there");
  }
  const TensorInfo& tensor = found->second;
  const std::string where = origin + ": tensor '" + kTokensTensor + "'";
  if (std::ranges::find(kIntegers, tensor.dtype) == kIntegers.end()) {
    throw InputError(where + " has dtype " + tensor.dtype +
                     ", expected an integer one (I64, I32, I16, I8, U32, U16, U8)");
  }
  const std::vector<int64_t>& shape = tensor.shape;
  if (shape.size() != 1 && shape.size() != 2) {
    throw InputError(where + " has " + std::to_string(shape.size()) +
                     " dimensions, expected [n] or [samples, seqlen]");
  }
  TokenShape tokens{shape.front(), std::nullopt};
  if (shape.size() == 2) {
    tokens.row_length = shape.back();
    tokens.count *= shape.back();
  }
  if (tokens.count == 0) throw InputError(where + " is empty");
  return tokens;
}

TokenShape read_token_shape(const std::filesystem::path& file, const Confinement& confinement) {
  return token_shape(read_safetensors_header(InputFile(file.string(), confinement)),
                     shown_path(file));
}

}  // namespace dotresize
