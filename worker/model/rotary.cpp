#include "worker/model/rotary.h"

#include <numbers>

namespace dotresize {
namespace {

// Angle per position of each pair of channels, [rotary_dim / 2] float32. Models were trained with
// float32 angles: computed in float64 they would drift from those at late positions.
at::Tensor default_frequencies(const ModelConfig& config) {
  const at::Tensor exponent =
      at::arange(0, config.rotary_dim(), 2, at::kFloat) / config.rotary_dim();
  return at::pow(at::Scalar(config.rotary.theta), exponent).reciprocal_();
}

// Llama 3.1: wavelengths beyond original_context / low_freq_factor are stretched by `factor`, those
// within original_context / high_freq_factor stay, and between them the two are blended.
at::Tensor llama3_frequencies(const ModelConfig& config) {
  const RotaryConfig& rotary = config.rotary;
  const at::Tensor frequencies = default_frequencies(config);
  const at::Tensor turns =
      frequencies * (rotary.original_max_position_embeddings / (2 * std::numbers::pi));
  const at::Tensor kept =
      ((turns - rotary.low_freq_factor) / (rotary.high_freq_factor - rotary.low_freq_factor))
          .clamp_(0, 1);
  return frequencies * (kept + (1 - kept) / rotary.factor);
}

}  // namespace

RotaryTable make_rotary_table(const ModelConfig& config, int64_t tokens) {
  const at::Tensor frequencies =
      config.rotary.type == "llama3" ? llama3_frequencies(config) : default_frequencies(config);
  const at::Tensor half = at::outer(at::arange(tokens, at::kFloat), frequencies);
  const at::Tensor angles = at::cat({half, half}, /*dim=*/1);
  return {at::cos(angles), at::sin(angles)};
}

RotaryTable to_device(const RotaryTable& table, at::Device device) {
  return {table.cos.to(device), table.sin.to(device)};
}

at::Tensor apply_rotary(const at::Tensor& x, const RotaryTable& table) {
  const int64_t tokens = x.size(-2);
  const int64_t turning = table.cos.size(-1);
  const int64_t half = turning / 2;
  const at::Tensor cos = table.cos.narrow(0, 0, tokens);
  const at::Tensor sin = table.sin.narrow(0, 0, tokens);
  const at::Tensor input = x.to(at::kFloat);
  at::Tensor result = at::empty_like(input);
  at::Tensor rotated = result.narrow(-1, 0, turning);
  at::mul_out(rotated, input.narrow(-1, 0, turning), cos);
  rotated.narrow(-1, 0, half)
      .addcmul_(input.narrow(-1, half, half), sin.narrow(-1, 0, half), /*value=*/-1);
  rotated.narrow(-1, half, half).addcmul_(input.narrow(-1, 0, half), sin.narrow(-1, half, half));
  const int64_t still = x.size(-1) - turning;
  result.narrow(-1, turning, still).copy_(input.narrow(-1, turning, still));
  return result.to(x.scalar_type());
}

}  // namespace dotresize
