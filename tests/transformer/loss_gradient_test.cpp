#include "worker/transformer/gradient/loss_gradient.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "job/plan/block_sizes.h"
#include "tests/transformer/whole_model.h"
#include "worker/transformer/forward.h"

namespace dotresize::testing {
namespace {

TEST(TokenUniforms, DependOnTheTokenAlone) {
  const at::Tensor all = token_uniforms(100, 50);
  EXPECT_TRUE(at::equal(token_uniforms(117, 20), all.narrow(0, 17, 20)));
  EXPECT_FALSE(at::equal(token_uniforms(99, 50), all));
  EXPECT_GE(all.min().item<double>(), 0.0);
  EXPECT_LT(all.max().item<double>(), 1.0);
}

TEST(TokenUniforms, AreUniform) {
  const at::Tensor numbers = std::get<0>(token_uniforms(0, 20000).sort());
  const at::Tensor even = at::arange(20000, at::kDouble) / 20000.0;
  EXPECT_LT(largest_difference(numbers, even), 1.95 / std::sqrt(20000.0));  // Kolmogorov, 0.1 %
}

/// A head with several blocks of the vocabulary.
class LossGradient : public ::testing::Test {
 protected:
  LossGradient() {
    config_.hidden_size = 8;
    config_.rms_norm_eps = 1e-5;
    at::manual_seed(1);
    head_ = {at::rand({8}, at::kFloat) + 0.5, at::randn({kVocabulary, 8}, at::kFloat)};
    x_ = at::randn({2, 3, 8}, at::kFloat);
  }

  at::Tensor probabilities() const {
    return head_forward(config_, head_, x_).view({6, -1}).to(at::kDouble).softmax(1);
  }
  at::Tensor gradient(const at::Tensor& uniforms) const {
    return loss_gradient(config_, head_, x_, uniforms);
  }

  /// found: [entries of x]. Compares entry `i`.
  void expect_slope(const at::Tensor& found, int64_t i, const std::function<double()>& loss) {
    const at::Tensor at_start = x_.clone();
    constexpr double kStep = 1e-2;
    x_.view(-1)[i] += kStep;
    const double above = loss();
    x_.view(-1)[i] -= 2 * kStep;
    const double below = loss();
    x_ = at_start;
    EXPECT_NEAR(found[i].item<double>(), (above - below) / (2 * kStep), 2e-3);
  }

  static constexpr int64_t kVocabulary = 2 * kGradientVocabularyRows + 100;
  const c10::InferenceMode with_autograd_{false};
  const c10::NoGradGuard until_it_is_needed_;
  ModelConfig config_;
  HeadWeights head_;
  at::Tensor x_;
};

TEST_F(LossGradient, BeyondAllSumsTheLastTokenIsDrawn) {
  head_.weight.mul_(0.1);  // keeps every token's share above float32 rounding
  const at::Tensor labels = at::full({6}, kVocabulary - 1, at::kLong);
  const at::Tensor uniforms = at::full({6}, 1.001, at::kDouble);  // sums are float32
  const at::Tensor drawn = numbers_that_draw(labels, probabilities());
  EXPECT_LT(largest_difference(gradient(uniforms), gradient(drawn)), 1e-5);
}

/// A label is the first token whose cumulative probability exceeds the number.
TEST_F(LossGradient, IsTheSlopeOfTheLossOfTheDrawnLabels) {
  const at::Tensor uniforms = at::tensor({0.0, 0.3, 0.5, 0.7, 0.9, 0.999999}, at::kDouble);
  const at::Tensor labels = (probabilities().cumsum(1) <= uniforms.unsqueeze(1)).sum(1);
  EXPECT_GT(labels.max().item<int64_t>(), kGradientVocabularyRows);
  const auto loss = [&] {
    return -probabilities().log().gather(1, labels.unsqueeze(1)).sum().item<double>();
  };
  const at::Tensor found = gradient(uniforms).view(-1);
  for (const int64_t i : {0, 13, 47}) expect_slope(found, i, loss);
}

/// The target's head has another width. The second token has no label.
TEST_F(LossGradient, OfADistillationIsTheSlopeOfTheDivergenceAndTheLabels) {
  constexpr double kShare = 0.25;
  const at::Tensor target_head = at::randn({kVocabulary, 5}, at::kFloat);
  const at::Tensor states = at::randn({6, 5}, at::kFloat);
  const at::Tensor labels = at::tensor({7, -1, 0, 3000, 4195, 2048}, at::kLong);
  const at::Tensor q = at::linear(states, target_head).to(at::kDouble).softmax(1);
  const at::Tensor share = labels.ge(0).to(at::kDouble) * kShare;
  const auto loss = [&] {
    const at::Tensor log_p = probabilities().log();
    const at::Tensor kl = (q * (q.log() - log_p)).sum(1);
    const at::Tensor nll = -log_p.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
    return ((1 - share) * kl + share * nll).sum().item<double>();
  };
  const at::Tensor found =
      distillation_gradient(config_, head_, x_, {target_head, states, labels, kShare}).view(-1);
  for (const int64_t i : {2, 11, 30}) expect_slope(found, i, loss);
}

}  // namespace
}  // namespace dotresize::testing
