#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "job/plan/block_sizes.h"
#include "worker/transformer/attention.h"
#include "worker/transformer/linear.h"

namespace dotresize {
namespace {

constexpr int64_t kChunk = kDeltaNetTokens;

/// Inputs of the gated delta rule, [batch, value heads, tokens, dim] float32.
struct RuleInputs {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor log_decay;  ///< [batch, value heads, tokens, 1], at most 0
  at::Tensor rate;       ///< [batch, value heads, tokens, 1], in (0, 1)
};

at::Tensor of_unit_length(const at::Tensor& x) {
  constexpr double kEps = 1e-6;
  return x * (x.square().sum(-1, /*keepdim=*/true) + kEps).rsqrt();
}

/// Returns [batch, heads, chunks, kChunk, dim]. Zeros fill the last chunk: such tokens leave the
/// memory as it is.
at::Tensor in_chunks(const at::Tensor& x) {
  const int64_t padding = (kChunk - x.size(2) % kChunk) % kChunk;
  return at::constant_pad_nd(x, {0, 0, 0, padding}).unflatten(2, {-1, kChunk});
}

/// Returns what the queries read from the memory, [batch, value heads, tokens, value_dim]. At each
/// token the memory S decays, S = exp(g) S, then takes the token's value at its key, S = S + β k (v
/// - Sᵀk)ᵀ, and is read: Sᵀq. Within a chunk the tokens' changes are the solution of one triangular
/// system (https://arxiv.org/abs/2412.06464, section 3). `memory`: before the first token, then
/// behind the last.
at::Tensor gated_delta_rule(const RuleInputs& inputs, at::Tensor& memory) {
  const int64_t tokens = inputs.query.size(2);
  const double scale = 1.0 / std::sqrt(static_cast<double>(inputs.query.size(3)));
  const at::Tensor query = in_chunks(of_unit_length(inputs.query) * scale);
  const at::Tensor key = in_chunks(of_unit_length(inputs.key));
  const at::Tensor rate = in_chunks(inputs.rate);
  const at::Tensor decay = in_chunks(inputs.log_decay).cumsum(3);  // from the chunk's start on
  const at::Tensor later = at::ones({kChunk, kChunk}, decay.options().dtype(at::kBool)).triu_(1);
  const at::Tensor between = (decay - decay.transpose(3, 4))
                                 .masked_fill(later, -std::numeric_limits<double>::infinity())
                                 .exp();
  const at::Tensor system = at::matmul(key * rate, key.transpose(3, 4)) * between;
  const auto solved = [&](const at::Tensor& right) {
    return at::linalg_solve_triangular(system, right, /*upper=*/false, /*left=*/true,
                                       /*unitriangular=*/true);
  };
  const at::Tensor values = solved(in_chunks(inputs.value) * rate);
  const at::Tensor reading_keys = solved(key * rate * decay.exp());
  const at::Tensor within = at::matmul(query, key.transpose(3, 4)) * between;
  const at::Tensor reading_queries = query * decay.exp();
  const at::Tensor last = decay.narrow(3, kChunk - 1, 1);
  const at::Tensor writing_keys = (key * (last - decay).exp()).transpose(3, 4);
  std::vector<at::Tensor> read;
  for (int64_t chunk = 0; chunk < query.size(2); ++chunk) {
    const auto of_chunk = [&](const at::Tensor& all) { return all.select(2, chunk); };
    const at::Tensor changes = of_chunk(values) - at::matmul(of_chunk(reading_keys), memory);
    read.push_back(at::matmul(of_chunk(reading_queries), memory) +
                   at::matmul(of_chunk(within), changes));
    memory = memory * of_chunk(last).exp() + at::matmul(of_chunk(writing_keys), changes);
  }
  return at::cat(read, 2).narrow(2, 0, tokens);
}

/// Returns silu of the causal convolution of x [batch, tokens, channels] float32, of that shape.
at::Tensor convolved(const at::Tensor& x, const at::Tensor& weight, DeltaNetState* state) {
  const int64_t taps = weight.size(2);
  const bool follows = state != nullptr && state->inputs.defined();
  const at::Tensor before =
      follows ? state->inputs : at::zeros({x.size(0), x.size(2), taps - 1}, x.options());
  const at::Tensor inputs = at::cat({before, x.transpose(1, 2)}, 2);
  if (state != nullptr) {
    state->inputs = inputs.narrow(2, inputs.size(2) - (taps - 1), taps - 1).clone();
  }
  const at::Tensor sums = at::conv1d(
      inputs, weight.to(at::kFloat), /*bias=*/std::nullopt, /*stride=*/at::IntArrayRef{1},
      /*padding=*/at::IntArrayRef{0}, /*dilation=*/at::IntArrayRef{1},
      /*groups=*/x.size(2));
  return at::silu(sums).transpose(1, 2);
}

}  // namespace

at::Tensor delta_net_forward(const ModelConfig& config, const SublayerWeights& weights,
                             const at::Tensor& x, DeltaNetState* state,
                             const FeatureVisitor& visit) {
  const DeltaNetSpec& net = *config.attention(weights.sublayer).delta_net;
  const int64_t batch = x.size(0);
  const int64_t tokens = x.size(1);
  const auto projected = [&](size_t part) {
    return apply_linear(weights.in_proj.at(part), x).to(at::kFloat);
  };
  const at::Tensor& convolution = weights.delta_net.at(0);
  const at::Tensor dt_bias = weights.delta_net.at(1).to(at::kFloat);
  const at::Tensor rate_of_decay = weights.delta_net.at(2).to(at::kFloat).exp();
  const at::Tensor mixed = convolved(projected(0), convolution, state);
  const auto heads = [&](int64_t first, int64_t count, int64_t dim) {
    return mixed.narrow(2, first, count * dim).reshape({batch, tokens, count, dim}).transpose(1, 2);
  };
  const auto shared = [&](const at::Tensor& by_key_head) {
    return by_key_head.repeat_interleave(net.value_heads / net.key_heads, 1);
  };
  const auto by_head = [](const at::Tensor& numbers) {  // [batch, tokens, heads]
    return numbers.transpose(1, 2).unsqueeze(3);
  };
  const RuleInputs inputs{
      .query = shared(heads(0, net.key_heads, net.key_dim)),
      .key = shared(heads(net.keys(), net.key_heads, net.key_dim)),
      .value = heads(2 * net.keys(), net.value_heads, net.value_dim),
      .log_decay = by_head(-rate_of_decay * at::softplus(projected(3) + dt_bias)),
      .rate = by_head(at::sigmoid(projected(2)))};
  at::Tensor memory =
      state != nullptr && state->memory.defined()
          ? state->memory
          : at::zeros({batch, net.value_heads, net.key_dim, net.value_dim}, mixed.options());
  const at::Tensor read = gated_delta_rule(inputs, memory).transpose(1, 2);
  if (state != nullptr) state->memory = memory;
  const at::Tensor gate = at::silu(projected(1)).view({batch, tokens, net.value_heads, -1});
  const at::Tensor normed =
      rms_norm(read, weights.delta_net.at(3), net.value_dim, config.rms_norm_eps);
  const Linear& out_proj = weights.out_proj.at(0);
  const at::Tensor values = (normed * gate)
                                .reshape({batch, tokens, -1})
                                .to(activation_dtype(out_proj.weight.scalar_type()));
  if (visit) visit(0, values);
  return apply_linear(out_proj, values);
}

}  // namespace dotresize
