#include "job/model/wrappers.h"
#include "tests/checkpoint/source_model.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(SourceModelTest, TheTextPartOfAWrapperHasTheNamesOfAModelOfText) {
  for (const auto& [base, head] : {std::pair("language_model.model.", "language_model.lm_head."),
                                   std::pair("model.language_model.", "lm_head.")}) {
    write(wrapper_json(), [&](NamedTensors& tensors) { wrap(tensors, base, head); });
    const SourceModel model = read();
    EXPECT_THAT(model.warnings, IsEmpty());
    EXPECT_EQ(model.config.family, "llama");
    EXPECT_EQ(model.config.dtypes, (StoredDtypes{Dtype::kBFloat16, {}}));
    EXPECT_EQ(model.config.wrapper->model_type, "llava");
    EXPECT_EQ(model.config.wrapper->other_tensors, 2);
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

}  // namespace
}  // namespace dotresize
