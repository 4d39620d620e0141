#include "worker/transformer/rotary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

namespace dotresize {
namespace {

// The plain frequencies, [channels / 2] float32: theta^(-2i/channels).
// Models were trained with float32 angles. Float64 angles would differ at late positions.
at::Tensor frequencies_of_base(const RotaryConfig& rotary, double theta) {
  const at::Tensor exponent = at::arange(0, rotary.channels, 2, at::kFloat) / rotary.channels;
  return at::pow(at::Scalar(theta), exponent).reciprocal_();
}

// YaRN (https://arxiv.org/abs/2309.00071): pairs up to the one with beta_fast rotations within the
// original context are unchanged. Pairs from the one with beta_slow rotations on are slowed by
// `factor`. Between them the two are blended.
at::Tensor yarn_frequencies(const RotaryConfig& rotary, const at::Tensor& frequencies) {
  // Pair of channels that makes `turns` rotations, as a real number.
  const auto pair_that_turns = [&](double turns) {
    const auto original = static_cast<double>(rotary.original_max_position_embeddings);
    return static_cast<double>(rotary.channels) *
           std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(rotary.theta));
  };
  double first = pair_that_turns(rotary.beta_fast);
  double last = pair_that_turns(rotary.beta_slow);
  if (rotary.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(rotary.channels - 1));
  if (first == last) last += 0.001;
  const at::Tensor slowed =
      ((at::arange(rotary.channels / 2, at::kFloat) - first) / (last - first)).clamp_(0, 1);
  return frequencies / rotary.factor * slowed + frequencies * (1 - slowed);
}

// Angle per position of each pair of channels, in a window of `tokens`.
at::Tensor frequencies(const RotaryConfig& rotary, int64_t max_position_embeddings,
                       int64_t tokens) {
  const at::Tensor plain = frequencies_of_base(rotary, rotary.theta);
  if (rotary.type == "default") return plain;
  if (rotary.type == "linear") return plain / rotary.factor;
  if (rotary.type == "dynamic" && rotary.alpha != 0.0) {
    const auto channels = static_cast<double>(rotary.channels);
    return frequencies_of_base(rotary,
                               rotary.theta * std::pow(rotary.alpha, channels / (channels - 2.0)));
  }
  if (rotary.type == "dynamic") {
    // NTK-aware scaling: the base grows with the window beyond max_position_embeddings, so that the
    // slowest pair of channels is slowed by factor·tokens/max_position_embeddings - (factor - 1).
    const auto longest = static_cast<double>(max_position_embeddings);
    const double length = std::max(static_cast<double>(tokens), longest) / longest;
    const double slowing = rotary.factor * length - (rotary.factor - 1.0);
    const auto channels = static_cast<double>(rotary.channels);
    return frequencies_of_base(rotary,
                               rotary.theta * std::pow(slowing, channels / (channels - 2.0)));
  }
  if (rotary.type == "yarn") return yarn_frequencies(rotary, plain);
  if (rotary.type == "longrope") {
    // LongRoPE (https://arxiv.org/abs/2402.13753): every pair of channels is slowed by its own
    // factor, with one list for windows within the original context and another for longer ones.
    const bool is_long = tokens > rotary.original_max_position_embeddings;
    return plain / at::tensor(is_long ? rotary.long_factor : rotary.short_factor, at::kFloat);
  }
  if (rotary.type == "llama3") {
    // Wavelengths beyond original_context / low_freq_factor are stretched by `factor`. Wavelengths
    // within original_context / high_freq_factor are unchanged. Between them the two are blended.
    const at::Tensor turns =
        plain * (rotary.original_max_position_embeddings / (2 * std::numbers::pi));
    const at::Tensor kept =
        ((turns - rotary.low_freq_factor) / (rotary.high_freq_factor - rotary.low_freq_factor))
            .clamp_(0, 1);
    return plain * (kept + (1 - kept) / rotary.factor);
  }
  throw std::logic_error("unknown type of rotary embedding: " + rotary.type);
}

// Rotates the pairs of channels i and i + turning/2. cos, sin: [tokens, turning]; input: float32.
at::Tensor rotated(const at::Tensor& input, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t turning = cos.size(-1);
  const int64_t half = turning / 2;
  at::Tensor result = at::empty_like(input);
  at::Tensor turned = result.narrow(-1, 0, turning);
  at::mul_out(turned, input.narrow(-1, 0, turning), cos);
  turned.narrow(-1, 0, half)
      .addcmul_(input.narrow(-1, half, half), sin.narrow(-1, 0, half), /*value=*/-1);
  turned.narrow(-1, half, half).addcmul_(input.narrow(-1, 0, half), sin.narrow(-1, half, half));
  const int64_t still = input.size(-1) - turning;
  result.narrow(-1, turning, still).copy_(input.narrow(-1, turning, still));
  return result;
}

/// rotated() for autograd: the gradient is multiplied by the transpose of the rotation.
class Rotation : public torch::autograd::Function<Rotation> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& cos, const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return rotated(input, cos, sin);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const std::vector<at::Tensor> halves = saved.at(1).chunk(2, -1);
    return {
        rotated(gradients.at(0), saved.at(0), at::cat({halves[1], halves[0]}, -1).neg_()), {}, {}};
  }
};

/// Returns the factors of queries at positions 0 .. tokens-1, [tokens, 1]; undefined if there are
/// none.
at::Tensor query_scales(const RotaryConfig& rotary, int64_t tokens) {
  const double beta = rotary.query_beta.value_or(0.0);
  if (beta == 0.0) return {};
  const at::Tensor extensions =
      at::floor(at::arange(tokens, at::kFloat) / rotary.original_max_position_embeddings);
  return at::log1p(extensions).mul_(beta).add_(1.0).unsqueeze(1);
}

/// Takes the first rows · columns channels for a matrix, and transposes it: {channels / 2, 2} moves
/// interleaved pairs into two halves, {2, channels / 2} moves them back.
at::Tensor transposed(const at::Tensor& x, int64_t rows, int64_t columns) {
  const int64_t turning = rows * columns;
  const at::Tensor matrix = x.narrow(-1, 0, turning).unflatten(-1, {rows, columns});
  return at::cat({matrix.transpose(-1, -2).flatten(-2), x.slice(-1, turning)}, -1);
}

}  // namespace

LayerContext make_layer_context(const ModelConfig& config, int64_t tokens, at::Device device) {
  LayerContext context;
  for (const RotaryConfig& rotary : config.rotaries) {
    const at::Tensor half = at::outer(at::arange(tokens, at::kFloat),
                                      frequencies(rotary, config.max_position_embeddings, tokens));
    const at::Tensor angles = at::cat({half, half}, /*dim=*/1);
    const at::Tensor scales = query_scales(rotary, tokens);
    context.rotaries.push_back({.cos = at::cos(angles).mul_(rotary.attention_factor).to(device),
                                .sin = at::sin(angles).mul_(rotary.attention_factor).to(device),
                                .query_scale = scales.defined() ? scales.to(device) : scales,
                                .interleaved = rotary.interleaved});
  }
  return context;
}

LayerContext positions_of(const LayerContext& context, int64_t first, int64_t tokens) {
  LayerContext part;
  for (const RotaryTable& table : context.rotaries) {
    const auto rows = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, first, tokens) : all;
    };
    part.rotaries.push_back(
        {rows(table.cos), rows(table.sin), rows(table.query_scale), table.interleaved});
  }
  return part;
}

at::Tensor apply_rotary(const at::Tensor& x, const RotaryTable& table) {
  const int64_t tokens = x.size(-2);
  const at::Tensor cos = table.cos.narrow(0, 0, tokens);
  const at::Tensor sin = table.sin.narrow(0, 0, tokens);
  const int64_t pairs = cos.size(-1) / 2;
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor input = table.interleaved ? transposed(wide, pairs, 2) : wide;
  const at::Tensor result =
      x.requires_grad() ? Rotation::apply(input, cos, sin) : rotated(input, cos, sin);
  return (table.interleaved ? transposed(result, 2, pairs) : result).to(x.scalar_type());
}

at::Tensor scale_queries(const at::Tensor& query, const RotaryTable& table) {
  if (!table.query_scale.defined()) return query;
  return query * table.query_scale.narrow(0, 0, query.size(-2)).to(query.scalar_type());
}

}  // namespace dotresize
