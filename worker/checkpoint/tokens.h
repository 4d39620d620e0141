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

/// Reads the tensor "tokens" of a safetensors file. Throws InputError: no such tensor, other
/// tensors' dtype than an integer one, other rank than 1 or 2, empty, or an id outside [0,
/// vocab_size) (with its value and position).
TokenFile read_tokens(const std::filesystem::path& path, int64_t vocab_size);

/// `samples` windows of `seqlen` at indices floor(i·W/samples) of the W whole windows (method.md,
/// "Calibration"). Returns [samples, seqlen] int64. Throws InputError if W < samples.
at::Tensor calibration_windows(const at::Tensor& tokens, int64_t samples, int64_t seqlen);

/// All whole windows, the tail dropped: [W, seqlen] int64. Throws InputError if there is none,
/// or seqlen < 2.
at::Tensor evaluation_windows(const at::Tensor& tokens, int64_t seqlen);

/// The whole windows that calibration_windows(tokens, samples, seqlen) leaves, in their order:
/// [W - samples, seqlen] int64. Throws InputError if there is none, or seqlen < 2.
at::Tensor unused_windows(const at::Tensor& tokens, int64_t samples, int64_t seqlen);

/// `samples` of the windows, spread evenly. Throws InputError if there are fewer.
at::Tensor spread_windows(const at::Tensor& windows, int64_t samples);

}  // namespace dotresize
