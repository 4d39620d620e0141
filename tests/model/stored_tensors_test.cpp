#include "worker/model/stored_tensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/whole_model.h"
#include "worker/model/expected_shapes.h"

namespace dotresize {

bool operator==(const StoredTensor& a, const StoredTensor& b) {
  return a.name == b.name && a.shape == b.shape;
}

void PrintTo(const StoredTensor& tensor, std::ostream* out) {
  *out << tensor.name << ' ' << ::testing::PrintToString(tensor.shape);
}

namespace testing {
namespace {

using ::testing::ElementsAre;

TEST(Names, FollowTheStream) {
  EXPECT_EQ(sublayer_name(6), "layers.3.attention");
  EXPECT_EQ(sublayer_name(7), "layers.3.mlp");
  EXPECT_EQ(junction_name(0), "embed");
  EXPECT_EQ(junction_name(1), "layers.0.attention");
  EXPECT_EQ(junction_name(8), "layers.3.mlp");
}

TEST(FoldedTensors, AreWeightsThenBiasesThenTheShortcut) {
  const ModelConfig config = tiny_config();
  const std::string attention = "model.layers.1.self_attn.";
  EXPECT_THAT(folded_tensors(config, 2, 10, 14),
              ElementsAre(StoredTensor{attention + "q_proj.weight", {36, 10}},
                          StoredTensor{attention + "k_proj.weight", {12, 10}},
                          StoredTensor{attention + "v_proj.weight", {12, 10}},
                          StoredTensor{attention + "o_proj.weight", {14, 36}},
                          StoredTensor{attention + "q_proj.bias", {36}},
                          StoredTensor{attention + "k_proj.bias", {12}},
                          StoredTensor{attention + "v_proj.bias", {12}},
                          StoredTensor{attention + "o_proj.bias", {14}},
                          StoredTensor{"model.layers.1.attention_shortcut.weight", {14, 10}}));
}

TEST(FoldedTensors, KeepFusedReadersAndHeadNorms) {
  const ModelConfig config = fused_config();
  const std::string layer = "model.layers.1.";
  EXPECT_THAT(folded_tensors(config, 2, 10, 14),
              ElementsAre(StoredTensor{layer + "self_attn.qkv_proj.weight", {60, 10}},
                          StoredTensor{layer + "self_attn.o_proj.weight", {14, 36}},
                          StoredTensor{layer + "self_attn.q_norm.weight", {12}},
                          StoredTensor{layer + "self_attn.k_norm.weight", {12}},
                          StoredTensor{layer + "attention_shortcut.weight", {14, 10}}));
  EXPECT_THAT(folded_tensors(config, 3, 10, 14),
              ElementsAre(StoredTensor{layer + "mlp.gate_up_proj.weight", {80, 10}},
                          StoredTensor{layer + "mlp.down_proj.weight", {14, 40}},
                          StoredTensor{layer + "mlp_shortcut.weight", {14, 10}}));
}

TEST(FoldedTensors, HaveTheBiasesThatTheConfigNames) {
  ModelConfig config = tiny_config();
  config.mlp_bias = false;
  const std::string mlp = "model.layers.0.mlp.";
  EXPECT_THAT(folded_tensors(config, 1, 10, 14),
              ElementsAre(StoredTensor{mlp + "gate_proj.weight", {40, 10}},
                          StoredTensor{mlp + "up_proj.weight", {40, 10}},
                          StoredTensor{mlp + "down_proj.weight", {14, 40}},
                          StoredTensor{"model.layers.0.mlp_shortcut.weight", {14, 10}}));
}

class FoldedValues : public ::testing::TestWithParam<ModelConfig> {};

TEST_P(FoldedValues, HaveTheShapesOfFoldedTensors) {
  const WholeModel model = random_model(GetParam(), 1);
  const at::Tensor M_inv = random_orthogonal(model.config.hidden_size, 2).narrow(0, 0, 10);
  const at::Tensor M = random_orthogonal(model.config.hidden_size, 3).narrow(1, 0, 14);
  for (const SublayerWeights& weights : model.sublayers) {
    const auto values = folded_values(fold_output(fold_input(weights, M_inv), M));
    const auto tensors = folded_tensors(model.config, weights.sublayer, 10, 14);
    ASSERT_EQ(values.size(), tensors.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i].sizes(), at::IntArrayRef(tensors[i].shape)) << tensors[i].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(PlainAndFused, FoldedValues,
                         ::testing::Values(tiny_config(), fused_config()), [](const auto& config) {
                           return config.param.fused_readers ? "Fused" : "Plain";
                         });

TEST(DenseSublayer, HasNoFoldedValues) {
  const WholeModel model = random_model(tiny_config(), 4);
  EXPECT_THROW(folded_values(model.sublayers[0]), std::logic_error);
}

TEST(ExpectedShapes, OfACompressedModelFollowItsWidths) {
  ModelConfig config = tiny_config();
  config.compressed = true;
  config.junction_widths = {8, 10, 12, 14, 24};
  const auto shapes = expected_shapes(config);
  EXPECT_EQ(shapes.at("model.embed_tokens.weight"), (std::vector<int64_t>{50, 8}));
  EXPECT_EQ(shapes.at("model.layers.0.mlp_shortcut.weight"), (std::vector<int64_t>{12, 10}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.q_proj.weight"), (std::vector<int64_t>{36, 12}));
  EXPECT_EQ(shapes.at("model.layers.1.mlp.down_proj.weight"), (std::vector<int64_t>{24, 40}));
  EXPECT_EQ(shapes.at("lm_head.weight"), (std::vector<int64_t>{50, 24}));
  EXPECT_EQ(shapes.size(), 2u + 2 * (9 + 7));
}

}  // namespace
}  // namespace testing
}  // namespace dotresize
