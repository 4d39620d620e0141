#include "job/model/tensor_table.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "job/model/model_config.h"
#include "job/model/model_size.h"
#include "tests/transformer/whole_model.h"
#include "worker/transformer/fold_sublayer.h"

namespace dotresize::testing {
namespace {

using ::testing::ElementsAre;

using NameAndShape = std::pair<std::string, std::vector<int64_t>>;

/// Returns the tensors of a sublayer in writing order.
std::vector<NameAndShape> names_and_shapes(const ModelConfig& config, int64_t sublayer) {
  std::vector<NameAndShape> result;
  for (const StoredTensor& tensor : sublayer_tensors(config, sublayer)) {
    result.emplace_back(tensor.name, tensor.shape);
  }
  return result;
}

/// Returns a compressed config whose `sublayer` reads a width of 10 and writes one of 14.
ModelConfig compressed_at(int64_t sublayer, ModelConfig config = tiny_config()) {
  config.compressed = true;
  config.form.junction_widths[sublayer] = 10;
  config.form.junction_widths[sublayer + 1] = 14;
  return config;
}

TEST(TensorTable, HasWeightsThenBiasesThenTheShortcut) {
  const ModelConfig config = compressed_at(2);
  const std::string attention = "model.layers.1.self_attn.";
  EXPECT_THAT(names_and_shapes(config, 2),
              ElementsAre(NameAndShape{attention + "q_proj.weight", {36, 10}},
                          NameAndShape{attention + "k_proj.weight", {12, 10}},
                          NameAndShape{attention + "v_proj.weight", {12, 10}},
                          NameAndShape{attention + "o_proj.weight", {14, 36}},
                          NameAndShape{attention + "q_proj.bias", {36}},
                          NameAndShape{attention + "k_proj.bias", {12}},
                          NameAndShape{attention + "v_proj.bias", {12}},
                          NameAndShape{attention + "o_proj.bias", {14}},
                          NameAndShape{"model.layers.1.attention_shortcut.weight", {14, 10}}));
}

TEST(TensorTable, KeepsFusedInProjAndHeadNorms) {
  const ModelConfig config = compressed_at(2, fused_config());
  const std::string layer = "model.layers.1.";
  EXPECT_THAT(names_and_shapes(config, 2),
              ElementsAre(NameAndShape{layer + "self_attn.qkv_proj.weight", {60, 10}},
                          NameAndShape{layer + "self_attn.o_proj.weight", {14, 36}},
                          NameAndShape{layer + "self_attn.q_norm.weight", {12}},
                          NameAndShape{layer + "self_attn.k_norm.weight", {12}},
                          NameAndShape{layer + "attention_shortcut.weight", {14, 10}}));
  EXPECT_THAT(names_and_shapes(compressed_at(3, fused_config()), 3),
              ElementsAre(NameAndShape{layer + "mlp.gate_up_proj.weight", {80, 10}},
                          NameAndShape{layer + "mlp.down_proj.weight", {14, 40}},
                          NameAndShape{layer + "mlp_shortcut.weight", {14, 10}}));
}

TEST(TensorTable, HasMlpsOfTheSizeOfTheirLayer) {
  ModelConfig config = compressed_at(3, fused_config());
  config.layers[1].mlp.intermediate_size = 24;
  const std::string layer = "model.layers.1.";
  EXPECT_THAT(names_and_shapes(config, 3),
              ElementsAre(NameAndShape{layer + "mlp.gate_up_proj.weight", {48, 10}},
                          NameAndShape{layer + "mlp.down_proj.weight", {14, 24}},
                          NameAndShape{layer + "mlp_shortcut.weight", {14, 10}}));
}

TEST(TensorTable, HasValueHeadsOfTheWidthOfTheirLayer) {
  ModelConfig config = compressed_at(2);
  config.layers[1].attention.value_head_dim = 5;
  const std::string attention = "model.layers.1.self_attn.";
  const auto shapes = expected_shapes(config);
  EXPECT_THAT(shapes.at(attention + "v_proj.weight"), ElementsAre(5, 10));
  EXPECT_THAT(shapes.at(attention + "v_proj.bias"), ElementsAre(5));
  EXPECT_THAT(shapes.at(attention + "k_proj.weight"), ElementsAre(12, 10));
  EXPECT_THAT(shapes.at(attention + "o_proj.weight"), ElementsAre(14, 15));
  EXPECT_THAT(shapes.at("model.layers.0.self_attn.v_proj.bias"), ElementsAre(12));
  ModelConfig fused = compressed_at(2, fused_config());
  fused.layers[1].attention.value_head_dim = 5;
  EXPECT_THAT(expected_shapes(fused).at(attention + "qkv_proj.weight"), ElementsAre(53, 10));
}

TEST(TensorTable, HasTheBiasesThatTheConfigNames) {
  ModelConfig config = compressed_at(1);
  config.layers[0].mlp.bias = false;
  const std::string mlp = "model.layers.0.mlp.";
  EXPECT_THAT(names_and_shapes(config, 1),
              ElementsAre(NameAndShape{mlp + "gate_proj.weight", {40, 10}},
                          NameAndShape{mlp + "up_proj.weight", {40, 10}},
                          NameAndShape{mlp + "down_proj.weight", {14, 40}},
                          NameAndShape{"model.layers.0.mlp_shortcut.weight", {14, 10}}));
}

TEST(TensorTable, OfAMixtureHasTheRouterAndEachExpert) {
  ModelConfig config = compressed_at(3, mixture_config());
  config.layers[1].mlp.mixture->experts = 2;
  const std::string block = "model.layers.1.block_sparse_moe.";
  EXPECT_THAT(names_and_shapes(config, 3),
              ElementsAre(NameAndShape{block + "gate.weight", {2, 10}},
                          NameAndShape{block + "experts.0.w1.weight", {16, 10}},
                          NameAndShape{block + "experts.0.w3.weight", {16, 10}},
                          NameAndShape{block + "experts.1.w1.weight", {16, 10}},
                          NameAndShape{block + "experts.1.w3.weight", {16, 10}},
                          NameAndShape{block + "experts.0.w2.weight", {14, 16}},
                          NameAndShape{block + "experts.1.w2.weight", {14, 16}},
                          NameAndShape{"model.layers.1.mlp_shortcut.weight", {14, 10}}));
}

TEST(TensorTable, SaysWhereTheExpertsAreInTensorsOfAll) {
  ModelConfig config = compressed_at(3, mixture_config());
  MlpSpec& mlp = config.layers[1].mlp;
  mlp.bias = mlp.fused = mlp.mixture->names.stacked = true;
  mlp.mixture->experts = 2;
  const std::string block = "model.layers.1.block_sparse_moe.";
  EXPECT_THAT(names_and_shapes(config, 3),
              ElementsAre(NameAndShape{block + "gate.weight", {2, 10}},
                          NameAndShape{block + "experts.0.w1.weight", {32, 10}},
                          NameAndShape{block + "experts.1.w1.weight", {32, 10}},
                          NameAndShape{block + "experts.0.w2.weight", {14, 16}},
                          NameAndShape{block + "experts.1.w2.weight", {14, 16}},
                          NameAndShape{block + "gate.bias", {2}},
                          NameAndShape{block + "experts.0.w1.bias", {32}},
                          NameAndShape{block + "experts.1.w1.bias", {32}},
                          NameAndShape{block + "experts.0.w2.bias", {14}},
                          NameAndShape{block + "experts.1.w2.bias", {14}},
                          NameAndShape{"model.layers.1.mlp_shortcut.weight", {14, 10}}));
  const StoredTensor second = sublayer_tensors(config, 3).at(2);
  EXPECT_EQ(second.slice->index, 1);
  EXPECT_EQ(second.name_in_files(), block + "experts.w1");
  const auto shapes = expected_shapes(config);
  EXPECT_THAT(shapes.at(block + "experts.w1"), ElementsAre(2, 10, 32));
  EXPECT_THAT(shapes.at(block + "experts.w2"), ElementsAre(2, 16, 14));
  EXPECT_THAT(shapes.at(block + "experts.w2_bias"), ElementsAre(2, 14));
  EXPECT_FALSE(shapes.contains(block + "experts.0.w1.weight"));
}

TEST(TensorTable, BetweenJunctionsOfOneGroupThereIsNoShortcut) {
  ModelConfig config = tiny_config();
  config.compressed = true;
  config.form.junction_groups = {0, 0, 1, 1, 2};
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    EXPECT_EQ(sublayer_tensors(config, s).back().name.ends_with("shortcut.weight"),
              !is_attention(s));
  }
}

TEST(TensorTable, AShortcutOfLowRankHasOneFactorOrTwo) {
  ModelConfig config = compressed_at(2);
  config.form.shortcuts.assign(4, ShortcutForm{3, 1});
  EXPECT_EQ(names_and_shapes(config, 2).back(),
            (NameAndShape{"model.layers.1.attention_shortcut.A", {3, 10}}));
  config.form.shortcuts.assign(4, ShortcutForm{3, 2});
  const auto tensors = names_and_shapes(config, 2);
  EXPECT_EQ(tensors.at(tensors.size() - 2),
            (NameAndShape{"model.layers.1.attention_shortcut.A", {3, 10}}));
  EXPECT_EQ(tensors.back(), (NameAndShape{"model.layers.1.attention_shortcut.B", {14, 3}}));
  config.form.shortcuts.assign(4, kIdentityShortcut);
  EXPECT_EQ(names_and_shapes(config, 2).back().first, "model.layers.1.self_attn.o_proj.bias");
}

TEST(TensorTable, OfADenseModelEndsWithTheNorm) {
  EXPECT_EQ(names_and_shapes(tiny_config(), 2).back(),
            (NameAndShape{"model.layers.1.input_layernorm.weight", {24}}));
}

class StoredValues : public ::testing::TestWithParam<ModelConfig> {};

TEST_P(StoredValues, HaveTheShapesOfTheTable) {
  const WholeModel model = random_model(GetParam(), 1);
  const at::Tensor M_inv = random_orthogonal(model.config.hidden_size, 2).narrow(0, 0, 10);
  const at::Tensor M = random_orthogonal(model.config.hidden_size, 3).narrow(1, 0, 14);
  for (const SublayerWeights& weights : model.sublayers) {
    const ModelConfig config = compressed_at(weights.sublayer, GetParam());
    const auto values = stored_values(config, fold_output(fold_input(weights, M_inv), M));
    const auto tensors = sublayer_tensors(config, weights.sublayer);
    ASSERT_EQ(values.size(), tensors.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i].sizes(), at::IntArrayRef(tensors[i].shape)) << tensors[i].name;
    }
  }
}

/// The sizes are sums over the same rows as the names and shapes.
TEST_P(StoredValues, HaveAsManyNumbersAsTheSizesSay) {
  for (int64_t s = 0; s < GetParam().num_sublayers(); ++s) {
    for (const bool folded : {false, true}) {
      const SublayerForm form = folded ? SublayerForm::kFolded : SublayerForm::kDense;
      int64_t numbers = 0;
      for (const StoredTensor& tensor : sublayer_tensors(GetParam(), s, form, 10, 14)) {
        numbers += c10::multiply_integers(tensor.shape);
      }
      EXPECT_EQ(numbers, sublayer_parameters(GetParam(), s, 10, 14, folded)) << sublayer_name(s);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoredValues,
                         ::testing::Values(tiny_config(), fused_config(), mixture_config()),
                         [](const auto& config) { return kind_of(config.param); });

TEST(StoredSublayer, RefuseASublayerOfAnotherKindOfModel) {
  const WholeModel model = random_model(tiny_config(), 4);
  ModelConfig config = tiny_config();
  EXPECT_NO_THROW(stored_values(config, model.sublayers[0]));
  config.compressed = true;
  EXPECT_THROW(stored_values(config, model.sublayers[0]), std::logic_error);
  const at::Tensor M = random_orthogonal(config.hidden_size, 5);
  const SublayerWeights folded = fold_output(fold_input(model.sublayers[0], M.t()), M);
  EXPECT_NO_THROW(stored_values(config, folded));
  config.form.junction_groups = {0, 0, 0, 0, 0};
  EXPECT_THROW(stored_values(config, folded), std::logic_error);
}

TEST(ExpectedShapes, OfACompressedModelFollowItsWidths) {
  ModelConfig config = tiny_config();
  config.compressed = true;
  config.form.junction_widths = {8, 10, 12, 14, 24};
  const auto shapes = expected_shapes(config);
  EXPECT_EQ(shapes.at("model.embed_tokens.weight"), (std::vector<int64_t>{50, 8}));
  EXPECT_EQ(shapes.at("model.layers.0.mlp_shortcut.weight"), (std::vector<int64_t>{12, 10}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.q_proj.weight"), (std::vector<int64_t>{36, 12}));
  EXPECT_EQ(shapes.at("model.layers.1.mlp.down_proj.weight"), (std::vector<int64_t>{24, 40}));
  EXPECT_EQ(shapes.at("lm_head.weight"), (std::vector<int64_t>{50, 24}));
  EXPECT_EQ(shapes.size(), 2u + 2 * (9 + 7));
}

}  // namespace
}  // namespace dotresize::testing
