#include "job/model/wrappers.h"
#include "tests/checkpoint/source_model.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(SourceModelTest, TheTextPartOfAWrapperHasTheNamesOfAModelOfText) {
  for (const auto& [base, head] : {std::pair("language_model.model.", "language_model.lm_head."),
                                   std::pair("model.language_model.", "lm_head.")}) {
    write(wrapper_json(), [&](NamedTensors& tensors) { wrap(tensors, base, head); });
    const SourceModel model = read();
    EXPECT_THAT(model.warnings, IsEmpty());
    EXPECT_EQ(model.config.family, "llama");
    EXPECT_EQ(model.config.files.dtypes, (StoredDtypes{Dtype::kBFloat16, {}}));
    EXPECT_EQ(model.config.files.wrapper->model_type, "llava");
    EXPECT_EQ(model.config.files.wrapper->other_tensors, 2);
    EXPECT_EQ(model.config.copied_bytes(), 12 + 40);
    const CheckpointReader reader(dir_.path(), model.config);
    EXPECT_EQ(reader.shape("model.norm.weight"), std::vector<int64_t>{8});
    EXPECT_FALSE(reader.has("vision_tower.weight"));
    EXPECT_EQ(reader.others().at("vision_tower.position_ids").dtype, "I64");
    EXPECT_EQ(stored_name(model.config, "model.layers.0.x"), std::string(base) + "layers.0.x");
    EXPECT_EQ(stored_name(model.config, "lm_head.weight"), std::string(head) + "weight");
  }
}

TEST_F(SourceModelTest, AWrapperWithoutATextPartOrWithTwoIsRefused) {
  write(wrapper_json());
  EXPECT_THAT(fault(), AllOf(HasSubstr("no tensor of the text part, whose names begin with "
                                       "'language_model.model.' or 'model.language_model.'"),
                             HasSubstr("such as 'model.embed_tokens.weight'")));
  write(wrapper_json(), [](NamedTensors& tensors) {
    wrap(tensors, "language_model.model.", "");
    tensors.emplace_back("lm_head.weight", at::ones({10, 8}, at::kBFloat16));
  });
  EXPECT_THAT(fault(), HasSubstr("tensor 'lm_head.weight' is of the text part, whose other names "
                                 "begin with 'language_model.model.'"));
}

TEST_F(SourceModelTest, AWrapperThatCallsATextPartWithAHeadTiedHasAHead) {
  json config = wrapper_json();
  config["text_config"]["tie_word_embeddings"] = false;
  write(config, [](NamedTensors& tensors) {
    tensors.emplace_back("lm_head.weight", at::ones({10, 8}, at::kBFloat16));
    wrap(tensors, "language_model.model.", "language_model.lm_head.");
  });
  EXPECT_FALSE(read().config.tie_word_embeddings);
  write(config, [](NamedTensors& tensors) {
    wrap(tensors, "language_model.model.", "language_model.lm_head.");
  });
  EXPECT_TRUE(read().config.tie_word_embeddings);
}

json qwen3_5_around_text() {
  json config = wrapper_json();
  json& text = config["text_config"];
  text.update({{"model_type", "qwen3_5_text"},
               {"num_key_value_heads", 2},
               {"head_dim", 8},
               {"layer_types", {"full_attention"}}});
  config["model_type"] = "qwen3_5";
  return config;
}

TEST_F(SourceModelTest, LayersThatPredictFurtherTokensAreNeitherReadNorCopied) {
  json config = qwen3_5_around_text();
  config["quantization_config"] = int8_by_matrix();
  write(config, [](NamedTensors& tensors) {
    wrap(tensors, "model.language_model.", "lm_head.");
    tensors.emplace_back("mtp.layers.0.mlp.up_proj.weight", at::full({12, 8}, 3, at::kChar));
    tensors.emplace_back("mtp.layers.0.mlp.up_proj.weight_scale", at::full({1}, 0.5));
  });
  const SourceModel model = read();
  EXPECT_EQ(model.config.files.wrapper->other_tensors, 2);
  EXPECT_THAT(model.warnings,
              ElementsAre(AllOf(HasSubstr("tensors 'mtp.layers.0.mlp.up_proj.weight', "),
                                HasSubstr("layers that predict further tokens are not read, and "
                                          "an output has none"))));
}

TEST_F(SourceModelTest, TheLayerBehindTheLastOneOfAGlmPredictsFurtherTokens) {
  json config = llama_json();
  config.update({{"model_type", "glm4_moe"},
                 {"num_key_value_heads", 2},
                 {"n_routed_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 6},
                 {"num_nextn_predict_layers", 1}});
  const auto bend = [](NamedTensors& tensors) {
    tensors.emplace_back("model.layers.1.eh_proj.weight", at::ones({8, 16}));
  };
  write(config, bend);
  EXPECT_THAT(read().warnings,
              ElementsAre(HasSubstr("tensor 'model.layers.1.eh_proj.weight': layers that predict "
                                    "further tokens are not read, and an output has none")));
  config.erase("num_nextn_predict_layers");
  write(config, bend);
  EXPECT_THAT(read().warnings, ElementsAre(HasSubstr("not part of a glm4_moe")));
}

}  // namespace
}  // namespace dotresize
