#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/transformer/whole_model.h"
#include "worker/evaluation/latency.h"
#include "worker/evaluation/whole_model.h"

namespace dotresize::testing {
namespace {

struct Case {
  const char* name;
  ModelConfig config;
};

ModelConfig with_window(ModelConfig config, int64_t window) {
  for (LayerSpec& layer : config.layers) layer.attention.sliding_window = window;
  return config;
}

ModelConfig with_narrow_values(ModelConfig config) {
  config.layers.front().attention.value_head_dim = 5;
  return config;
}

ModelConfig with_dynamic_rotary(ModelConfig config) {
  config.rotaries.front().type = "dynamic";
  config.rotaries.front().factor = 2.0;
  config.max_position_embeddings = 8;
  return config;
}

class DecoderOf : public ::testing::TestWithParam<Case> {};

// Compares the logits after each part with those of one forward pass over the whole sequence.
void expect_parity(const ModelConfig& config, const std::vector<int64_t>& parts) {
  const c10::InferenceMode inference;
  const WholeModel model = random_model(config, 1);
  const int64_t tokens = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  const at::Tensor ids = random_ids(config, {2, tokens}, 2);
  const at::Tensor expected = logits(model, ids);
  Decoder decoder(model, 2, tokens);
  int64_t read = 0;
  for (const int64_t part : parts) {
    const at::Tensor found = decoder.read(ids.narrow(1, read, part));
    read += part;
    EXPECT_LT(largest_difference(found, expected.select(1, read - 1)), 1e-4) << read;
  }
}

TEST_P(DecoderOf, StepByStepGivesTheLogitsOfTheWhole) {
  expect_parity(GetParam().config, {5, 1, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST_P(DecoderOf, SeveralTokensAtATimeGiveTheLogitsOfTheWhole) {
  expect_parity(GetParam().config, {1, 4, 7, 2});
}

INSTANTIATE_TEST_SUITE_P(
    Models, DecoderOf,
    ::testing::Values(Case{"llama", tiny_config()}, Case{"fused_normed_heads", fused_config()},
                      Case{"short_window", with_window(tiny_config(), 3)},
                      Case{"mixture", mixture_config()},
                      Case{"narrow_values", with_narrow_values(fused_config())},
                      Case{"dynamic_rotary", with_dynamic_rotary(tiny_config())},
                      Case{"window_of_one", with_window(tiny_config(), 1)},
                      Case{"long_window", with_window(tiny_config(), 14)}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(Decoder, RefusesMoreTokensThanItHasRoomFor) {
  const c10::InferenceMode inference;
  const WholeModel model = random_model(tiny_config(), 3);
  const at::Tensor ids = random_ids(model.config, {1, 8}, 4);
  Decoder decoder(model, 1, 9);
  decoder.read(ids);
  EXPECT_THROW(decoder.read(ids), c10::Error);
}

TEST(Latency, MeasuresEveryRepetitionButTheWarmUp) {
  const c10::InferenceMode inference;
  const WholeModel model = random_model(tiny_config(), 5);
  const LatencyOptions options{
      .prompt = 6, .decode = 3, .batch = 2, .repetitions = 4, .warmup = 1, .seed = 7};
  std::vector<int64_t> tokens;
  const LatencySamples samples =
      measure_latency(model, options, [&](int64_t read) { tokens.push_back(read); });
  EXPECT_EQ(tokens, std::vector<int64_t>(5, 18));
  ASSERT_EQ(samples.prompt_ms.size(), 4u);
  ASSERT_EQ(samples.decode_ms.size(), 4u);
  for (const double time : samples.prompt_ms) EXPECT_GT(time, 0.0);
  for (const double time : samples.decode_ms) EXPECT_GT(time, 0.0);
}

TEST(Latency, TakesTheSameRandomTokensForTheSameSeed) {
  LatencyOptions options{.prompt = 50, .decode = 50, .batch = 3, .seed = 7};
  const at::Tensor ids = latency_ids(options, 1000);
  EXPECT_TRUE(at::equal(ids, latency_ids(options, 1000)));
  EXPECT_EQ(ids.sizes(), (std::vector<int64_t>{3, 100}));
  EXPECT_GE(ids.min().item<int64_t>(), 0);
  EXPECT_LT(ids.max().item<int64_t>(), 1000);
  options.seed = 8;
  EXPECT_FALSE(at::equal(ids, latency_ids(options, 1000)));
}

TEST(Spread, LiesBetweenSamplesInProportion) {
  const Spread spread = spread_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(spread.median, 2.5);
  EXPECT_DOUBLE_EQ(spread.p10, 1.3);
  EXPECT_DOUBLE_EQ(spread.p90, 3.7);
  EXPECT_DOUBLE_EQ(spread_of({5}).p90, 5);
}

}  // namespace
}  // namespace dotresize::testing
