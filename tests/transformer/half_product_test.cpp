#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/transformer/whole_model.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/gradient/backward.h"
#include "worker/transformer/gradient/loss_gradient.h"
#include "worker/transformer/linear.h"

namespace dotresize::testing {
namespace {

double relative_error(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).norm() / expected.norm()).item<double>();
}

TEST(HalfProduct, KeepsTheDigitsOfRowsOfAnySize) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({3, 40}, at::kFloat);
  const at::Tensor matrix = at::randn({40, 30}, at::kFloat).to(at::kHalf);
  const at::Tensor sizes = at::tensor({0x1p-90F, 1.0F, 0x1p90F}).unsqueeze(1);
  const at::Tensor plain = half_product(x, matrix);
  EXPECT_LT(relative_error(plain, at::mm(x, matrix.to(at::kFloat))), 1e-3);
  EXPECT_TRUE(at::equal(half_product(x * sizes, matrix), plain * sizes));
}

TEST(HalfProduct, OfNothingIsNothingAndOfNoNumberIsNone) {
  at::Tensor x = at::zeros({3, 4}, at::kFloat);
  x[1][2] = std::numeric_limits<float>::infinity();
  const at::Tensor y = half_product(x, at::ones({4, 2}, at::kHalf));
  EXPECT_TRUE(at::equal(y[0], at::zeros({2})));
  EXPECT_FALSE(at::isfinite(y[1]).any().item<bool>());
  EXPECT_TRUE(at::equal(y[2], at::zeros({2})));
}

/// Sublayers in float16, and the same numbers in float32.
class InHalf : public ::testing::TestWithParam<ModelConfig> {
 protected:
  InHalf()
      : half_(to_dtype(random_model(GetParam(), 3), at::kHalf)),
        exact_(to_dtype(half_, at::kFloat)),
        context_(make_layer_context(GetParam(), 9)) {
    x_ = at::randn({2, 9, GetParam().hidden_size}, at::kFloat);
    g_ = at::randn(x_.sizes(), at::kFloat);
  }

  at::Tensor gradient(const WholeModel& model, size_t sublayer, const at::Tensor& g) const {
    const SublayerWeights& weights = model.sublayers[sublayer];
    return gradients_through(sublayer_graph(model.config, weights, context_, x_), weights, g).input;
  }
  at::Tensor forward(const WholeModel& model, size_t sublayer) const {
    return sublayer_forward(model.config, model.sublayers[sublayer], context_, x_);
  }

  const c10::InferenceMode with_autograd_{false};
  const c10::NoGradGuard until_it_is_needed_;
  WholeModel half_;
  WholeModel exact_;
  LayerContext context_;
  at::Tensor x_;
  at::Tensor g_;
};

TEST_P(InHalf, GradientsAreCloseToThoseOfFloat32) {
  for (size_t s = 0; s < half_.sublayers.size(); ++s) {
    EXPECT_LT(relative_error(gradient(half_, s, g_), gradient(exact_, s, g_)), 2e-3) << s;
  }
}

/// Gradients would vanish below 6e-8 and overflow beyond 65504 without scales.
TEST_P(InHalf, GradientsOfAnySizeHaveTheSameDigits) {
  for (size_t s = 0; s < half_.sublayers.size(); ++s) {
    const at::Tensor plain = gradient(half_, s, g_);
    for (const double size : {0x1p-40, 0x1p40}) {
      EXPECT_TRUE(at::equal(gradient(half_, s, g_ * size), plain * size)) << s << ", " << size;
    }
  }
}

TEST_P(InHalf, WhatIsNotFiniteStaysSo) {
  g_[1][3][5] = std::numeric_limits<float>::quiet_NaN();
  for (size_t s = 0; s < half_.sublayers.size(); ++s) {
    EXPECT_FALSE(at::isfinite(gradient(half_, s, g_)).all().item<bool>()) << s;
  }
}

/// Features and outputs of the sublayers are beyond 65504.
TEST_P(InHalf, MassiveActivationsDoNotOverflow) {
  for (WholeModel* model : {&half_, &exact_}) {
    for (SublayerWeights& weights : model->sublayers) {
      for (Linear& linear : weights.in_proj) linear.weight.mul_(64);
      for (Linear& linear : weights.out_proj) linear.weight.mul_(2048);
    }
  }
  for (size_t s = 0; s < half_.sublayers.size(); ++s) {
    const at::Tensor expected = forward(exact_, s);
    EXPECT_GT(expected.abs().max().item<double>(), 65504.0) << s;
    EXPECT_LT(relative_error(forward(half_, s), expected), 0.02) << s;  // attentions are sharp
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, InHalf,
                         ::testing::Values(tiny_config(), fused_config(), mixture_config()),
                         [](const auto& config) { return kind_of(config.param); });

/// The attention's output has gradients 60,000 times those of the sublayer, and the values have
/// sums of them. Both overflow 65504 with the first scale that is tried.
TEST(GradientInHalf, IsTriedWithLessWhereItOverflows) {
  const c10::InferenceMode with_autograd(false);
  const c10::NoGradGuard no_grad;
  WholeModel half = random_model(tiny_config(), 5);
  half.sublayers[0].out_proj[0].weight.fill_(2500.0);
  half = to_dtype(half, at::kHalf);
  const WholeModel exact = to_dtype(half, at::kFloat);
  const LayerContext context = make_layer_context(half.config, 9);
  const at::Tensor x = at::randn({1, 9, half.config.hidden_size}, at::kFloat);
  const at::Tensor g = at::ones_like(x);
  const auto gradient = [&](const WholeModel& model) {
    const SublayerWeights& weights = model.sublayers[0];
    return gradients_through(sublayer_graph(model.config, weights, context, x), weights, g).input;
  };
  EXPECT_LT(relative_error(gradient(half), gradient(exact)), 5e-3);
}

TEST(LossGradientInHalf, OfALargeVocabularyIsThatOfFloat32) {
  const c10::InferenceMode with_autograd(false);
  const c10::NoGradGuard no_grad;
  ModelConfig config;
  config.hidden_size = 8;
  at::manual_seed(2);
  constexpr int64_t kVocabulary = 100'000;  // probabilities of 1e-5
  HeadWeights head{at::ones({8}), at::randn({kVocabulary, 8}).to(at::kHalf)};
  const at::Tensor x = at::randn({1, 6, 8}, at::kFloat) * 0.1;
  const at::Tensor uniforms = at::tensor({0.1, 0.3, 0.5, 0.7, 0.9, 0.95}, at::kDouble);
  const at::Tensor found = loss_gradient(config, head, x, uniforms);
  head.weight = head.weight.to(at::kFloat);
  EXPECT_LT(relative_error(found, loss_gradient(config, head, x, uniforms)), 5e-3);
}

}  // namespace
}  // namespace dotresize::testing
