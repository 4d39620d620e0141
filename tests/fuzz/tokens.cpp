#include "worker/checkpoint/tokens.h"

#include <ATen/ATen.h>

#include "base/errors.h"
#include "tests/fuzz/targets.h"
#include "tests/temporary_directory.h"

namespace dotresize {

void fuzz_tokens(const std::string& bytes) {
  constexpr int64_t kVocabulary = 300;
  constexpr int64_t kSeqlen = 2;
  static const TemporaryDirectory dir;
  const auto path = dir.write("tokens.safetensors", bytes);
  try {
    const TokenFile file = read_tokens(path, kVocabulary);
    require(file.tokens.dim() == 1 && file.tokens.numel() > 0, "there are tokens");
    require(
        file.tokens.min().item<int64_t>() >= 0 && file.tokens.max().item<int64_t>() < kVocabulary,
        "tokens are of the vocabulary");
    require(!file.row_length || file.tokens.numel() % *file.row_length == 0, "rows are whole");
    require(evaluation_windows(file.tokens, kSeqlen).size(1) == kSeqlen, "windows are whole");
    require(calibration_windows(file.tokens, 3, kSeqlen).size(0) == 3, "so many windows");
  } catch (const InputError&) {
    return;
  }
}

}  // namespace dotresize
