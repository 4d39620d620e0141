#include <gmock/gmock.h>

#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ModelConfig parsed_mixture(const std::string& text) {
  return parse_model_config(text, "config.json");
}

TEST(ModelConfig, GptOssHasSinksAndExpertsStoredAsOne) {
  const ParsedConfig parsed = parse_config(kGptOssConfig, "config.json");
  EXPECT_THAT(parsed.warnings, testing::IsEmpty());
  const ModelConfig& config = parsed.model;
  EXPECT_EQ(config.files.quantisation,
            (Quantisation{.name = "mxfp4", .weight_dtype = "U8", .packed = true}));
  EXPECT_EQ(config.files.dtypes.main, Dtype::kBFloat16);  // the config states none
  for (int64_t sublayer = 0; sublayer < 4; sublayer += 2) {
    const AttentionSpec& attention = config.attention(sublayer);
    EXPECT_TRUE(attention.sinks && attention.bias && attention.output_bias);
    EXPECT_EQ(attention.sliding_window.value_or(0), sublayer == 0 ? 128 : 0);
  }
  EXPECT_FALSE(config.rotaries.front().truncate);
  const MlpSpec& mlp = config.mlp(1);
  EXPECT_TRUE(mlp.bias && mlp.fused && mlp.interleaved && mlp.mixture->normed_weights);
  EXPECT_EQ(mlp.limited, (LimitedGlu{.limit = 7.0, .sharpness = 1.702}));
  const auto shapes = expected_shapes(config);
  const std::string block = "model.layers.23.mlp.";
  EXPECT_EQ(shapes.at(block + "experts.gate_up_proj"), (std::vector<int64_t>{32, 2880, 5760}));
  EXPECT_EQ(shapes.at(block + "experts.gate_up_proj_bias"), (std::vector<int64_t>{32, 5760}));
  EXPECT_EQ(shapes.at(block + "experts.down_proj"), (std::vector<int64_t>{32, 2880, 2880}));
  EXPECT_EQ(shapes.at(block + "experts.down_proj_bias"), (std::vector<int64_t>{32, 2880}));
  EXPECT_EQ(shapes.at(block + "router.bias"), (std::vector<int64_t>{32}));
  EXPECT_EQ(shapes.at("model.layers.23.self_attn.sinks"), (std::vector<int64_t>{64}));
  EXPECT_EQ(shapes.size(), 24u * (2 + 4 * 2 + 1 + 2 + 4) + 3);
}

TEST(ModelConfig, EveryLayerOfMixtralIsAMixture) {
  const ModelConfig config = parsed_mixture(kMixtralConfig);
  for (const LayerSpec& layer : config.layers) {
    ASSERT_TRUE(layer.mlp.mixture);
    EXPECT_EQ(layer.mlp.mixture->experts, 8);
    EXPECT_EQ(layer.mlp.mixture->experts_per_token, 2);
    EXPECT_EQ(layer.mlp.intermediate_size, 14336);
    EXPECT_TRUE(layer.mlp.mixture->normed_weights);
  }
  EXPECT_FALSE(config.is_mixture(0));
  EXPECT_TRUE(config.is_mixture(1));
  EXPECT_FALSE(llama31().is_mixture(1));
}

TEST(ModelConfig, SomeLayersOfQwen3MoeMayBeDense) {
  const auto layers = [](const std::string& dense, int step) {
    const std::string text =
        with(with(kQwen3MoeConfig, R"("mlp_only_layers": [])", R"("mlp_only_layers": )" + dense),
             R"("decoder_sparse_step": 1)", R"("decoder_sparse_step": )" + std::to_string(step));
    std::vector<bool> mixtures;
    for (const LayerSpec& layer :
         parsed_mixture(with(text, R"("num_hidden_layers": 48)", R"("num_hidden_layers": 4)"))
             .layers) {
      mixtures.push_back(layer.mlp.mixture.has_value());
      EXPECT_EQ(layer.mlp.intermediate_size, layer.mlp.mixture ? 768 : 6144);
    }
    return mixtures;
  };
  EXPECT_THAT(layers("[]", 1), ElementsAre(true, true, true, true));
  EXPECT_THAT(layers("null", 1), ElementsAre(true, true, true, true));
  EXPECT_THAT(layers("[0, 3]", 1), ElementsAre(false, true, true, false));
  EXPECT_THAT(layers("[3]", 2), ElementsAre(false, true, false, false));
  EXPECT_THAT(layers("[]", 5), ElementsAre(false, false, false, false));
}

TEST(ModelConfig, Qwen3MoeNamesItsExpertsInTheDialectsOfBothTransformers) {
  const ModelConfig config = parsed_mixture(kQwen3MoeConfig);
  EXPECT_EQ(config.mlp(1).mixture->experts, 128);
  EXPECT_EQ(config.mlp(1).intermediate_size, 768);
  EXPECT_TRUE(config.layers.front().attention.head_norms);
  const std::string version5 = with(kQwen3MoeConfig, "num_experts\"", "num_local_experts\"");
  EXPECT_EQ(parsed_mixture(version5).mlp(1).mixture->experts, 128);
  EXPECT_FALSE(parsed_mixture(with(kQwen3MoeConfig, R"("norm_topk_prob": true,)", ""))
                   .mlp(1)
                   .mixture->normed_weights);
}

TEST(ModelConfig, WindowOfQwen3MoeHoldsOnEveryLayerWhereItIsUsed) {
  const std::string text =
      with(kQwen3MoeConfig, R"("sliding_window": null)", R"("sliding_window": 100)");
  EXPECT_EQ(parsed_mixture(text).layers.front().attention.sliding_window, std::nullopt);
  EXPECT_EQ(
      parsed_mixture(with(text, R"("use_sliding_window": false)", R"("use_sliding_window": true)"))
          .layers.front()
          .attention.sliding_window,
      100);
}

}  // namespace
}  // namespace dotresize
