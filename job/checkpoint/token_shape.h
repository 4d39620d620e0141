#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/files/confinement.h"

namespace dotresize {

struct SafetensorsHeader;

/// Name of the tensor in a token file.
inline constexpr char kTokensTensor[] = "tokens";

/// Shape of a token file: [n] or [samples, seqlen].
struct TokenShape {
  int64_t count = 0;                  ///< all ids
  std::optional<int64_t> row_length;  ///< seqlen of a [samples, seqlen] file
};

/// Throws InputError, starting with `origin`, if there is no tensor "tokens" or it is empty, its
/// dtype is not an integer or its rank is not 1 or 2.
TokenShape token_shape(const SafetensorsHeader& header, const std::string& origin);

/// Reads only the header of a file. Throws InputError.
TokenShape read_token_shape(const std::filesystem::path& file,
                            const Confinement& confinement = Confinement::of_process());

}  // namespace dotresize
