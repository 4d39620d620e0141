#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace dotresize {

/// Token ids as a file holds them: [n] or [samples, seqlen], int64.
struct TokenFile {
  at::Tensor tokens;                  ///< [n] int64, rows joined
  std::optional<int64_t> row_length;  ///< seqlen of a [samples, seqlen] file
};

/// Reads the tensor "tokens" of a safetensors file. Throws InputError if it is missing or empty,
/// its dtype is not an integer, its rank is not 1 or 2, or an id is outside [0, vocab_size) (with
/// its value and position).
TokenFile read_tokens(const std::filesystem::path& path, int64_t vocab_size);

/// Returns `samples` windows [samples, seqlen] int64 at indices floor(i·W/samples) of the W whole
/// windows (method.md, "Calibration"). Throws InputError if W < samples.
at::Tensor calibration_windows(const at::Tensor& tokens, int64_t samples, int64_t seqlen);

/// Returns all whole windows [W, seqlen] int64; drops the tail. Throws InputError if there is none,
/// or seqlen < 2.
at::Tensor evaluation_windows(const at::Tensor& tokens, int64_t seqlen);

/// Returns the whole windows that calibration_windows(tokens, samples, seqlen) leaves, in order: [W
/// - samples, seqlen] int64. Throws InputError if there is none, or seqlen < 2.
at::Tensor unused_windows(const at::Tensor& tokens, int64_t samples, int64_t seqlen);

/// Returns `samples` of the windows, evenly spread. Throws InputError if there are fewer.
at::Tensor spread_windows(const at::Tensor& windows, int64_t samples);

}  // namespace dotresize
