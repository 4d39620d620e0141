#include "worker/maps/fold.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "job/model/model_config.h"
#include "tests/transformer/whole_model.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/linear.h"
#include "worker/transformer/rotary.h"

namespace dotresize::testing {
namespace {

// Returns one random orthogonal map of full width per junction.
std::vector<at::Tensor> orthogonal_maps(const ModelConfig& config) {
  std::vector<at::Tensor> maps;
  for (int64_t j = 0; j < config.num_junctions(); ++j) {
    maps.push_back(random_orthogonal(config.hidden_size, 100 + j));
  }
  return maps;
}

// Returns the model folded with `maps`, in float32. The transpose of a map is its M_inv.
WholeModel folded(const WholeModel& dense, const std::vector<at::Tensor>& maps) {
  WholeModel model;
  model.config = dense.config;
  model.config.compressed = true;
  model.embedding.weight = fold_embedding(dense.embedding.weight, maps.front()).to(at::kFloat);
  for (size_t s = 0; s < dense.sublayers.size(); ++s) {
    const SublayerWeights weights = fold_input(dense.sublayers[s], maps[s].t());
    model.sublayers.push_back(to_dtype(fold_output(weights, maps[s + 1]), at::kFloat));
  }
  model.head.weight = fold_head(dense.head, maps.back().t()).weight.to(at::kFloat);
  return model;
}

class Fold : public ::testing::TestWithParam<ModelConfig> {};

TEST_P(Fold, AtFullWidthKeepsTheLogits) {
  const c10::InferenceMode inference;
  const WholeModel dense = random_model(GetParam(), 1);
  const at::Tensor ids = random_ids(dense.config, {2, 33}, 2);
  const WholeModel model = folded(dense, orthogonal_maps(dense.config));
  EXPECT_LT(largest_difference(logits(model, ids), logits(dense, ids)), 1e-4);
}

// The schedule that solves junctions one after another runs layers with a folded input and an
// output that still has full width.
TEST_P(Fold, OfTheInputAloneYieldsTheDenseStream) {
  const c10::InferenceMode inference;
  const WholeModel dense = random_model(GetParam(), 3);
  const LayerContext context = make_layer_context(dense.config, 9);
  const at::Tensor x = at::randn({2, 9, dense.config.hidden_size}, at::kFloat);
  const at::Tensor map = random_orthogonal(dense.config.hidden_size, 4);
  const at::Tensor mapped = at::matmul(x, map.to(at::kFloat));
  for (const SublayerWeights& weights : dense.sublayers) {
    const SublayerWeights half = to_dtype(fold_input(weights, map.t()), at::kFloat);
    EXPECT_LT(largest_difference(sublayer_forward(dense.config, half, context, mapped),
                                 sublayer_forward(dense.config, weights, context, x)),
              1e-4)
        << sublayer_name(weights.sublayer);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Fold,
                         ::testing::Values(tiny_config(), fused_config(), mixture_config()),
                         [](const auto& config) { return kind_of(config.param); });

TEST(FoldDtype, IsFloat32For16BitOutput) {
  EXPECT_EQ(fold_dtype(Dtype::kBFloat16), at::kFloat);
  EXPECT_EQ(fold_dtype(Dtype::kFloat16), at::kFloat);
  EXPECT_EQ(fold_dtype(Dtype::kFloat32), at::kDouble);
}

TEST(FoldFormula, OfInputAndOutputIsTheFormula) {
  const WholeModel dense = random_model(tiny_config(), 5);
  const int64_t d = dense.config.hidden_size;
  const at::Tensor M_in = random_orthogonal(d, 6).narrow(1, 0, 10);
  const at::Tensor M_inv_in = M_in.t() * 0.5;  // a map need not be orthogonal
  const at::Tensor M_out = random_orthogonal(d, 7).narrow(1, 0, 14);
  for (const SublayerWeights& weights : dense.sublayers) {
    const SublayerWeights both = fold_output(fold_input(weights, M_inv_in), M_out);
    EXPECT_FALSE(both.norm.defined());
    EXPECT_LT(largest_difference(both.shortcut, at::matmul(M_inv_in, M_out)), 1e-12);
    for (size_t i = 0; i < weights.in_proj.size(); ++i) {
      const at::Tensor scaled = weights.in_proj[i].weight.to(at::kDouble) * weights.norm;
      EXPECT_LT(largest_difference(both.in_proj[i].weight, at::matmul(scaled, M_inv_in.t())),
                1e-12);
      EXPECT_TRUE(at::equal(both.in_proj[i].bias, weights.in_proj[i].bias.to(at::kDouble)));
    }
    const at::Tensor out_proj = weights.out_proj[0].weight.to(at::kDouble);
    EXPECT_LT(largest_difference(both.out_proj[0].weight, at::matmul(M_out.t(), out_proj)), 1e-12);
    const at::Tensor bias = weights.out_proj[0].bias.to(at::kDouble);
    EXPECT_LT(largest_difference(both.out_proj[0].bias, at::matmul(bias, M_out)), 1e-12);
  }
}

TEST(FoldFormula, OfInputAndOutputCommute) {
  const WholeModel dense = random_model(tiny_config(), 8);
  const at::Tensor M_inv = random_orthogonal(dense.config.hidden_size, 9).narrow(0, 0, 10);
  const at::Tensor M = random_orthogonal(dense.config.hidden_size, 10).narrow(1, 0, 14);
  ModelConfig folded = dense.config;
  folded.compressed = true;
  for (const SublayerWeights& weights : dense.sublayers) {
    const auto one = stored_values(folded, fold_output(fold_input(weights, M_inv), M));
    const auto other = stored_values(folded, fold_input(fold_output(weights, M), M_inv));
    ASSERT_EQ(one.size(), other.size());
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_LT(largest_difference(one[i], other[i]), 1e-12);
    }
  }
}

TEST(StockNorm, DividesByTheWidthOfTheSource) {
  const int64_t k = 10;
  const WholeModel dense = random_model(tiny_config(), 13);
  const double d = static_cast<double>(dense.config.hidden_size);
  const at::Tensor x = at::randn({3, k}, at::kFloat);
  const at::Tensor in_proj = at::randn({5, k}, at::kDouble);
  const at::Tensor expected =
      at::linear(rms_norm(x, {}, dense.config.hidden_size, 1e-5).to(at::kDouble), in_proj);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const StockNorm norm = stock_norm(dense.config.hidden_size, k, dtype);
    EXPECT_TRUE(at::equal(norm.weight, norm.weight.to(dtype).to(at::kDouble)));
    const HeadWeights stored{norm.weight, in_proj * norm.rest};
    const at::Tensor normed = rms_norm(x, stored.norm.to(at::kFloat), k, 1e-5 * d / k);
    EXPECT_LT(largest_difference(at::linear(normed.to(at::kDouble), stored.weight), expected),
              1e-5);
  }
}

TEST(FoldHead, IsTheFormula) {
  const WholeModel dense = random_model(tiny_config(), 11);
  const at::Tensor M_inv = random_orthogonal(dense.config.hidden_size, 12).narrow(0, 0, 10);
  const at::Tensor scaled = dense.head.weight.to(at::kDouble) * dense.head.norm;
  EXPECT_LT(largest_difference(fold_head(dense.head, M_inv).weight, at::matmul(scaled, M_inv.t())),
            1e-12);
  const HeadWeights exact{dense.head.norm.to(at::kDouble), dense.head.weight.to(at::kDouble)};
  const HeadWeights full = fold_head(exact, {});
  EXPECT_FALSE(full.norm.defined());
  EXPECT_LT(largest_difference(full.weight, scaled), 1e-12);
}

}  // namespace
}  // namespace dotresize::testing
