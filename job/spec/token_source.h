#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace dotresize {

/// Source of tokens: text files or one token file.
struct TokenSource {
  std::vector<std::filesystem::path> text;
  std::filesystem::path tokens;  ///< empty if `text` is given
  std::optional<int64_t> samples;
  std::optional<int64_t> seqlen;  ///< absent: the token file's row length, else 2048

  bool given() const { return !text.empty() || !tokens.empty(); }
};

}  // namespace dotresize
