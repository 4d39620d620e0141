#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/transformer/whole_model.h"
#include "worker/transformer/mlp.h"

namespace dotresize::testing {
namespace {

// Runs every expert on every token and weights the results by the routing weight or 0.
at::Tensor all_experts(const MixtureSpec& config, const SublayerWeights& weights,
                       const at::Tensor& x) {
  const Routing routing = route(config, weights.in_proj[0], x);
  const at::Tensor dense = at::zeros({x.size(0), config.experts}, x.options())
                               .scatter(/*dim=*/1, routing.experts, routing.weights);
  at::Tensor sum = at::zeros_like(x);
  for (int64_t e = 0; e < config.experts; ++e) {
    const auto gate = weights.in_proj.begin() + 1 + 2 * e;
    const at::Tensor result = mlp_forward(MlpSpec(), {gate, gate + 2}, weights.out_proj[e], x);
    sum += result * dense.select(1, e).unsqueeze(1);
  }
  return sum;
}

class Mixture : public ::testing::Test {
 protected:
  at::Tensor forward(const at::Tensor& x) const {
    return mixture_forward({.mixture = config_}, weights_, x);
  }

  const c10::InferenceMode inference_;
  WholeModel model_ = random_model(mixture_config(), 1);
  SublayerWeights& weights_ = model_.sublayers[3];
  MixtureSpec& config_ = *model_.config.layers.back().mlp.mixture;
  at::Tensor x_ = at::randn({2, 7, 24}, at::kFloat);
};

TEST_F(Mixture, EqualsEveryExpertOnEveryToken) {
  const at::Tensor expected = all_experts(config_, weights_, x_.reshape({14, 24}));
  EXPECT_LT(largest_difference(forward(x_).reshape({14, 24}), expected), 1e-5);
}

TEST_F(Mixture, SendsATokenToItsMostProbableExperts) {
  const at::Tensor tokens = x_.reshape({14, 24});
  const at::Tensor probabilities = at::softmax(at::linear(tokens, weights_.in_proj[0].weight), -1);
  const Routing normed = route(config_, weights_.in_proj[0], tokens);
  config_.normed_weights = false;
  const Routing plain = route(config_, weights_.in_proj[0], tokens);
  const at::Tensor sorted = std::get<0>(probabilities.sort(-1, /*descending=*/true));
  EXPECT_LT(largest_difference(plain.weights, sorted.narrow(1, 0, 2)), 1e-6);
  EXPECT_TRUE(at::equal(plain.experts, normed.experts));
  EXPECT_LT(largest_difference(normed.weights.sum(-1), at::ones({14})), 1e-6);
  EXPECT_LT(largest_difference(normed.weights * plain.weights.sum(-1, true), plain.weights), 1e-6);
}

TEST_F(Mixture, ComputesWhereNoTokenComesToSomeExpert) {
  weights_.in_proj[0].weight.zero_();
  weights_.in_proj[0].weight[1][0] = 1;  // a positive first channel selects experts 1 and 0
  const at::Tensor token = at::ones({1, 1, 24}, at::kFloat);
  const at::Tensor expected = all_experts(config_, weights_, token.reshape({1, 24}));
  EXPECT_LT(largest_difference(forward(token).reshape({1, 24}), expected), 1e-5);
}

TEST_F(Mixture, RoutesIn16BitsByFloat32Probabilities) {
  const SublayerWeights half = to_dtype(weights_, at::kBFloat16);
  const at::Tensor tokens = x_.reshape({14, 24}).to(at::kBFloat16);
  const Routing routing = route(config_, half.in_proj[0], tokens);
  EXPECT_EQ(routing.weights.scalar_type(), at::kBFloat16);
  const at::Tensor logits = at::linear(tokens, half.in_proj[0].weight).to(at::kFloat);
  EXPECT_TRUE(at::equal(routing.experts, std::get<1>(at::softmax(logits, -1).topk(2))));
  EXPECT_EQ(mixture_forward({.mixture = config_}, half, x_.to(at::kBFloat16)).scalar_type(),
            at::kBFloat16);
}

Routing routed(const MixtureSpec& config, const std::vector<float>& logits,
               const at::Tensor& bias = {}) {
  const at::Tensor router = at::tensor(logits).unsqueeze(1);  // the token is the number 1
  return route(config, {router, {}}, at::ones({1, 1}, at::kFloat), {}, bias);
}

TEST(Routing, ABiasChoosesExpertsAndDoesNotWeighThem) {
  const MixtureSpec config{.experts = 4,
                           .experts_per_token = 2,
                           .scores = RouterScores::kSigmoid,
                           .choice_bias = true,
                           .weight_scale = 2.5};
  const at::Tensor bias = at::tensor({0.0F, 0.0F, 0.0F, 9.0F});
  const Routing found = routed(config, {1.0F, 2.0F, 0.0F, -3.0F}, bias);
  EXPECT_TRUE(at::equal(found.experts, at::tensor({3, 1}, at::kLong).unsqueeze(0)));
  const at::Tensor expected = 2.5 * at::sigmoid(at::tensor({-3.0F, 2.0F})).unsqueeze(0);
  EXPECT_LT(largest_difference(found.weights, expected), 1e-6);
}

TEST(Routing, ABiasIsNotRoundedAmongNarrowWeights) {
  SublayerWeights weights;
  weights.choice_bias = at::tensor({8.0F, 8.001F});
  EXPECT_TRUE(at::equal(to_dtype(weights, at::kBFloat16).choice_bias, weights.choice_bias));
  EXPECT_EQ(held_dtype(TensorRole::kChoiceBias, at::kDouble), at::kDouble);
  EXPECT_EQ(held_dtype(TensorRole::kInProjWeight, at::kHalf), at::kHalf);
}

TEST(Routing, AGroupIsAsGoodAsItsTwoBestExperts) {
  const MixtureSpec config{.experts = 6,
                           .experts_per_token = 2,
                           .scores = RouterScores::kSigmoid,
                           .groups = 2,
                           .groups_per_token = 1};
  // The best expert of all is in the other group.
  const Routing found = routed(config, {4.0F, -4.0F, -4.0F, 2.0F, -4.0F, 1.0F});
  EXPECT_TRUE(at::equal(found.experts, at::tensor({3, 5}, at::kLong).unsqueeze(0)));
}

TEST(Routing, NormedWeightsOfScoresThatAreAllZeroAreNumbers) {
  const MixtureSpec config{.experts = 2,
                           .experts_per_token = 1,
                           .normed_weights = true,
                           .scores = RouterScores::kSigmoid};
  EXPECT_EQ(routed(config, {-200.0F, -200.0F}).weights.item<float>(), 0.0F);
}

}  // namespace
}  // namespace dotresize::testing
