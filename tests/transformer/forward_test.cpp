#include "worker/transformer/forward.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/transformer/whole_model.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/linear.h"

namespace dotresize::testing {
namespace {

TEST(RmsNorm, DividesByTheOriginalWidth) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({3, 5, 7}, at::kFloat);
  const at::Tensor gamma = at::rand({7}, at::kFloat);
  const at::Tensor exact = x.to(at::kDouble);
  const at::Tensor expected = exact / (exact.square().sum(-1, true) / 11 + 0.1).sqrt();
  EXPECT_LT(largest_difference(rms_norm(x, {}, 11, 0.1), expected), 1e-6);
  EXPECT_LT(largest_difference(rms_norm(x, gamma, 11, 0.1), expected * gamma), 1e-6);
}

TEST(RmsNorm, LeavesItsInputAlone) {
  const at::Tensor x = at::ones({2, 4}, at::kFloat);
  rms_norm(x, at::full({4}, 2.0, at::kFloat), 4, 0.0);
  EXPECT_TRUE(at::equal(x, at::ones_like(x)));
}

TEST(SublayerForward, LeavesItsInputAlone) {
  const c10::InferenceMode inference;
  const WholeModel model = random_model(tiny_config(), 2);
  const LayerContext context = make_layer_context(model.config, 6);
  const at::Tensor x = at::randn({1, 6, model.config.hidden_size}, at::kFloat);
  const at::Tensor before = x.clone();
  for (const SublayerWeights& weights : model.sublayers) {
    sublayer_forward(model.config, weights, context, x);
  }
  EXPECT_TRUE(at::equal(x, before));
}

/// Returns the sublayer with its shortcut as one matrix [k_in, k_out].
SublayerWeights with_matrix(SublayerWeights weights, const at::Tensor& shortcut) {
  weights.shortcut_A = weights.shortcut_B = at::Tensor();
  weights.shortcut = shortcut;
  return weights;
}

TEST(SublayerForward, OfAShortcutOfLowRankIsThatOfTheMatrix) {
  const c10::InferenceMode inference;
  const WholeModel model = random_model(tiny_config(), 4);
  const LayerContext context = make_layer_context(model.config, 6);
  const int64_t d = model.config.hidden_size;
  for (const auto& [k_in, k_out] : {std::pair{16, 16}, {16, 20}, {20, 16}, {24, 24}}) {
    const at::Tensor M_inv = random_orthogonal(d, 5).narrow(0, 0, k_in);
    const at::Tensor M = random_orthogonal(d, 6).narrow(1, 0, k_out);
    const at::Tensor x = at::randn({2, 6, k_in}, at::kFloat);
    const at::Tensor A = at::randn({k_in, 3}, at::kFloat);
    const at::Tensor B = at::randn({3, k_out}, at::kFloat);
    const int64_t common = std::min(k_in, k_out);
    at::Tensor A_fitted = at::zeros({k_out, 3}, at::kFloat);
    A_fitted.narrow(0, 0, common).copy_(A.narrow(0, 0, common));
    const at::Tensor identity = at::eye(k_in, k_out, at::kFloat);
    for (const SublayerWeights& dense : model.sublayers) {
      SublayerWeights weights = to_dtype(fold_output(fold_input(dense, M_inv), M), at::kFloat);
      const auto expect_as = [&](const at::Tensor& matrix) {
        EXPECT_LT(largest_difference(
                      sublayer_forward(model.config, weights, context, x),
                      sublayer_forward(model.config, with_matrix(weights, matrix), context, x)),
                  1e-4)
            << k_in << " to " << k_out;
      };
      weights.shortcut = at::Tensor();
      expect_as(identity);
      weights.shortcut_A = A;
      expect_as(identity - at::mm(A, A_fitted.t()));
      weights.shortcut_B = B;
      expect_as(identity + at::mm(A, B));
    }
  }
}

TEST(Attention, IsCausal) {
  const c10::InferenceMode inference;
  const WholeModel model = random_model(tiny_config(), 3);
  const at::Tensor ids = random_ids(model.config, {1, 20}, 4);
  const at::Tensor prefix = ids.narrow(1, 0, 12).contiguous();
  EXPECT_LT(largest_difference(logits(model, ids).narrow(1, 0, 12), logits(model, prefix)), 1e-5);
}

void set_window(int64_t window, ModelConfig& config) {
  for (LayerSpec& layer : config.layers) layer.attention.sliding_window = window;
}

TEST(Attention, WithAWindowOfOneSeesItselfAlone) {
  const c10::InferenceMode inference;
  WholeModel model = random_model(tiny_config(), 5);
  set_window(1, model.config);
  const at::Tensor ids = random_ids(model.config, {1, 8}, 6);
  // Attention to a single key ignores its position, so each token may as well be the first.
  const at::Tensor alone = logits(model, ids.reshape({8, 1}));
  EXPECT_LT(largest_difference(logits(model, ids), alone.reshape({1, 8, -1})), 1e-5);
}

TEST(Attention, WithAWindowOfEveryTokenIsPlain) {
  const c10::InferenceMode inference;
  WholeModel model = random_model(tiny_config(), 7);
  const at::Tensor ids = random_ids(model.config, {1, 8}, 8);
  const at::Tensor plain = logits(model, ids);
  set_window(8, model.config);
  EXPECT_TRUE(at::equal(logits(model, ids), plain));
  set_window(7, model.config);
  EXPECT_GT(largest_difference(logits(model, ids), plain), 1e-3);
}

TEST(Attention, HasTheWindowOfItsLayer) {
  const c10::InferenceMode inference;
  WholeModel model = random_model(tiny_config(), 7);
  const at::Tensor ids = random_ids(model.config, {1, 8}, 8);
  set_window(3, model.config);
  const at::Tensor both = logits(model, ids);
  model.config.layers.front().attention.sliding_window.reset();
  const at::Tensor last = logits(model, ids);
  EXPECT_GT(largest_difference(last, both), 1e-3);
  model.config.layers.back().attention.sliding_window.reset();
  EXPECT_GT(largest_difference(logits(model, ids), last), 1e-3);
}

TEST(Attention, WithoutARotaryEmbeddingSeesASetOfTokens) {
  const c10::InferenceMode inference;
  ModelConfig config = tiny_config();
  for (LayerSpec& layer : config.layers) layer.attention.rotary.reset();
  const WholeModel model = random_model(config, 5);
  const at::Tensor ids = random_ids(config, {1, 8}, 6);
  const at::Tensor swapped = ids.index_select(1, at::tensor({3, 1, 2, 0, 4, 5, 6, 7}));
  const auto last = [&](const at::Tensor& tokens) { return logits(model, tokens).select(1, -1); };
  EXPECT_GT(largest_difference(last(ids), last(swapped)), 1e-3) << "the second layer sees order";
  config.layers.pop_back();
  const WholeModel first = random_model(config, 5);
  EXPECT_LT(
      largest_difference(logits(first, ids).select(1, -1), logits(first, swapped).select(1, -1)),
      1e-5);
}

TEST(Attention, WithNarrowerValuesIsThatWhoseOtherChannelsAreZero) {
  const c10::InferenceMode inference;
  ModelConfig config = tiny_config();
  for (LayerSpec& layer : config.layers) {
    layer.attention.num_heads = 4;
    layer.attention.num_kv_heads = 2;
  }
  config.layers.front().attention.value_head_dim = 5;
  const WholeModel narrow = random_model(config, 13);
  WholeModel wide = narrow;
  wide.config.layers.front().attention.value_head_dim = 12;
  Linear& v = wide.sublayers[0].in_proj.at(2);
  Linear& o = wide.sublayers[0].out_proj.at(0);
  v.weight = at::constant_pad_nd(v.weight.view({2, 5, 24}), {0, 0, 0, 7}).view({24, 24});
  v.bias = at::constant_pad_nd(v.bias.view({2, 5}), {0, 7}).view({24});
  o.weight = at::constant_pad_nd(o.weight.view({24, 4, 5}), {0, 7}).view({24, 48});
  const at::Tensor ids = random_ids(config, {2, 9}, 14);
  EXPECT_LT(largest_difference(logits(narrow, ids), logits(wide, ids)), 1e-5);
}

// Returns the relative error of the logits by norm.
double logits_error(at::ScalarType dtype) {
  const WholeModel model = random_model(tiny_config(), 9);
  const at::Tensor ids = random_ids(model.config, {2, 30}, 10);
  const at::Tensor exact = logits(model, ids);
  const at::Tensor rounded = logits(to_dtype(model, dtype), ids);
  EXPECT_EQ(rounded.scalar_type(), at::kFloat);
  return ((rounded - exact).norm() / exact.norm()).item<double>();
}

TEST(Forward, InBfloat16IsCloseToFloat32) {
  const c10::InferenceMode inference;
  EXPECT_LT(logits_error(at::kBFloat16), 0.02);
}

TEST(Forward, InFloat16IsCloseToFloat32) {
  const c10::InferenceMode inference;
  EXPECT_LT(logits_error(at::kHalf), 0.0025);
}

TEST(Rotary, KeepsNormsAndDependsOnDistanceAlone) {
  const ModelConfig config = tiny_config();
  const RotaryTable table = make_layer_context(config, 40).rotaries.front();
  at::manual_seed(11);
  const at::Tensor query = at::randn({1, 1, 1, 12}, at::kFloat).expand({1, 1, 40, -1});
  const at::Tensor key = at::randn({1, 1, 1, 12}, at::kFloat).expand({1, 1, 40, -1});
  const at::Tensor turned = apply_rotary(query, table);
  EXPECT_LT(largest_difference(turned.norm(2, {-1}), query.norm(2, {-1})), 1e-5);
  const at::Tensor scores = at::matmul(turned, apply_rotary(key, table).transpose(-2, -1));
  const at::Tensor shifted = scores.slice(2, 1).slice(3, 1);
  EXPECT_LT(largest_difference(shifted, scores.slice(2, 0, 39).slice(3, 0, 39)), 1e-4);
}

TEST(Rotary, RotatesInFloat32AndRoundsOnce) {
  const ModelConfig config = tiny_config();
  const RotaryTable table = make_layer_context(config, 10).rotaries.front();
  at::manual_seed(12);
  const at::Tensor x = at::randn({1, 2, 10, 12}, at::kFloat).to(at::kBFloat16);
  EXPECT_TRUE(
      at::equal(apply_rotary(x, table), apply_rotary(x.to(at::kFloat), table).to(at::kBFloat16)));
}

}  // namespace
}  // namespace dotresize::testing
