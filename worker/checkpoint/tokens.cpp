#include "worker/checkpoint/tokens.h"

#include <ATen/ATen.h>

#include "base/errors.h"
#include "job/checkpoint/token_shape.h"
#include "worker/checkpoint/reader.h"

namespace dotresize {
namespace {

/// Returns all whole windows of `seqlen`. Throws InputError with found and needed numbers if there
/// are fewer than `needed`.
at::Tensor whole_windows(const at::Tensor& tokens, int64_t seqlen, int64_t needed) {
  const int64_t windows = tokens.size(0) / seqlen;
  if (windows < needed) {
    throw InputError(std::to_string(tokens.size(0)) + " tokens hold " + std::to_string(windows) +
                     " whole windows of seqlen " + std::to_string(seqlen) + ", and " +
                     std::to_string(needed) + (needed == 1 ? " is" : " are") +
                     " needed: give more text, fewer samples or a smaller seqlen");
  }
  return tokens.narrow(0, 0, windows * seqlen).view({windows, seqlen});
}

/// Returns floor(i * windows / samples) for i < samples, without the product, which could overflow.
at::Tensor spread_indices(int64_t windows, int64_t samples) {
  const int64_t quotient = windows / samples;
  const int64_t remainder = windows % samples;
  const at::Tensor i = at::arange(samples, at::kLong);
  return i * quotient + (i * remainder).floor_divide(samples);
}

void check_predicts(int64_t seqlen) {
  if (seqlen >= 2) return;
  throw InputError("evaluation",
                   "seqlen " + std::to_string(seqlen) +
                       " must be at least 2: the first token of a window is not predicted");
}

}  // namespace

TokenFile read_tokens(const std::filesystem::path& path, int64_t vocab_size) {
  const SafetensorsFile file(path);
  const TokenShape shape = token_shape(file.header, path.string());
  TokenFile tokens{file.tensor(kTokensTensor).to(at::kLong).flatten(), shape.row_length};
  const at::Tensor outside = tokens.tokens.lt(0).logical_or(tokens.tokens.ge(vocab_size));
  if (outside.any().item<bool>()) {
    const auto position = outside.nonzero()[0].item<int64_t>();
    throw InputError(path.string() + ": tensor '" + kTokensTensor + "': id " +
                     std::to_string(tokens.tokens[position].item<int64_t>()) + " at position " +
                     std::to_string(position) + " is outside the vocabulary, 0 to " +
                     std::to_string(vocab_size - 1) +
                     "; were the tokens made with another tokenizer?");
  }
  return tokens;
}

at::Tensor calibration_windows(const at::Tensor& tokens, int64_t samples, int64_t seqlen) {
  if (samples < 1 || seqlen < 1) {
    throw InputError("calibration", "samples " + std::to_string(samples) + " and seqlen " +
                                        std::to_string(seqlen) + " must be at least 1");
  }
  const at::Tensor windows = whole_windows(tokens, seqlen, samples);
  return windows.index_select(0, spread_indices(windows.size(0), samples));
}

at::Tensor evaluation_windows(const at::Tensor& tokens, int64_t seqlen) {
  check_predicts(seqlen);
  return whole_windows(tokens, seqlen, 1);
}

at::Tensor unused_windows(const at::Tensor& tokens, int64_t samples, int64_t seqlen) {
  check_predicts(seqlen);
  const at::Tensor windows = whole_windows(tokens, seqlen, samples);
  if (windows.size(0) == samples) {
    throw InputError("evaluation", "the calibration uses all " + std::to_string(samples) +
                                       " windows of its text: give fewer calibration.samples, "
                                       "more text, or evaluation.text");
  }
  at::Tensor unused = at::ones({windows.size(0)}, at::kBool);
  unused.index_fill_(0, spread_indices(windows.size(0), samples), false);
  return windows.index_select(0, unused.nonzero().flatten());
}

at::Tensor spread_windows(const at::Tensor& windows, int64_t samples) {
  if (windows.size(0) < samples) {
    throw InputError("evaluation.samples", std::to_string(samples) +
                                               " windows are asked for, and there are " +
                                               std::to_string(windows.size(0)));
  }
  return windows.index_select(0, spread_indices(windows.size(0), samples));
}

}  // namespace dotresize
