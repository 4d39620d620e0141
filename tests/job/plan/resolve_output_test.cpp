#include <gmock/gmock.h>

#include "tests/job/plan/resolve_job.h"

namespace dotresize {
namespace {

using testing::Each;
using testing::HasSubstr;

TEST_F(ResolveJob, ALlamaWithHeadsOfAnotherWidthBecomesAMistralIfThatIsTheSame) {
  EXPECT_EQ(resolve().output.stock_family, std::nullopt);
  spec_.mutable_output()->set_format(v1::Output::stock);
  EXPECT_EQ(resolve().output.stock_family, "mistral");
  const ModelConfig plain = config_;
  config_.rotaries.front().type = "llama3";
  EXPECT_EQ(resolve().output.stock_family, std::nullopt);
  config_ = plain;
  for (LayerSpec& layer : config_.layers) layer.attention.bias = true;
  EXPECT_EQ(resolve().output.stock_family, std::nullopt);
  config_ = plain;
  config_.vocab_size = 128256;
  EXPECT_EQ(resolve().output.stock_family, std::nullopt);
  config_ = plain;
  config_.files.tokenizer = TokenizerForm{"LlamaTokenizer"};
  EXPECT_EQ(resolve().output.stock_family, std::nullopt);
  config_.files.tokenizer = TokenizerForm{"TokenizersBackend"};
  EXPECT_EQ(resolve().output.stock_family, "mistral");
  config_ = plain;
  const int64_t width = resolve().widths.largest();
  for (LayerSpec& layer : config_.layers) {
    layer.attention.head_dim = width / layer.attention.num_heads;
  }
  EXPECT_EQ(resolve().output.stock_family, std::nullopt);
}

TEST_F(ResolveJob, TheArchitectureOfAStockModelMayBeAskedFor) {
  spec_.mutable_output()->set_format(v1::Output::stock);
  spec_.mutable_output()->set_architecture(v1::Output::source);
  EXPECT_EQ(resolve().output.stock_family, std::nullopt);
  spec_.mutable_output()->set_architecture(v1::Output::mistral);
  config_.rotaries.front().type = "llama3";
  set_heads(12);
  spec_.mutable_method()->clear_sparsity();
  spec_.mutable_method()->set_width(200);  // not a multiple of the heads
  EXPECT_EQ(resolve().output.stock_family, "mistral");
  for (LayerSpec& layer : config_.layers) layer.attention.bias = true;
  EXPECT_THAT(error(), HasSubstr("output.architecture: mistral has no biases"));
  config_.family = "qwen3";
  EXPECT_THAT(error(), HasSubstr("mistral can be made of a llama, not of a qwen3"));
  spec_.mutable_output()->clear_format();
  EXPECT_THAT(error(), HasSubstr("output.architecture: mistral needs output.format: stock"));
}

TEST_F(ResolveJob, AStockModelHasAWidthThatItsFamilyAllows) {
  set_heads(12);
  spec_.mutable_output()->set_format(v1::Output::stock);
  EXPECT_EQ(resolve().widths.largest(), 192);  // a multiple of 8 and of 12
  EXPECT_THAT(resolve().widths.all, Each(192));
  EXPECT_TRUE(resolve().maps.head_sliced);
  spec_.mutable_method()->clear_sparsity();
  spec_.mutable_method()->set_width(200);
  EXPECT_THAT(error(), HasSubstr("method.width: 200 is not a multiple of 12, the number of att"));
  config_.family = "mistral";
  EXPECT_EQ(resolve().widths.largest(), 200);
}

TEST_F(ResolveJob, ANarrowerStockPhi3WithLongropeIsRefusedByName) {
  config_.family = "phi3";
  spec_.mutable_output()->set_format(v1::Output::stock);
  EXPECT_TRUE(resolve().stock_output());
  config_.rotaries.front().type = "longrope";
  EXPECT_THAT(error(), HasSubstr("output.format: a stock model of the family 'phi3' cannot "
                                 "have a longrope embedding"));
  spec_.mutable_output()->clear_format();
  EXPECT_FALSE(resolve().stock_output());
  spec_.mutable_output()->set_format(v1::Output::stock);
  // Its stream keeps its width if a size is allocated.
  spec_.mutable_method()->Clear();
  spec_.mutable_method()->set_size(0.8);
  EXPECT_TRUE(resolve().stock_output());
  spec_.mutable_method()->Clear();
  spec_.mutable_method()->set_sparsity(0.2);
  config_.family = "qwen3";
  EXPECT_TRUE(resolve().stock_output());
}

TEST_F(ResolveJob, MapsAreRefusedWhereTokensShareAnExpert) {
  config_.layers.back().mlp.mixture = {
      .experts = 4, .experts_per_token = 1, .shared_size = 8, .expert_size = 8};
  EXPECT_THAT(error(), HasSubstr("the model has an expert that all tokens share; a size alone"));
  spec_.mutable_output()->set_format(v1::Output::stock);
  EXPECT_THAT(error(), HasSubstr("the model has an expert that all tokens share; a size alone"));
}

TEST_F(ResolveJob, OutputsWithMapsAndCodeHaveNoSinks) {
  config_.layers.back().attention.sinks = true;
  EXPECT_THAT(error(),
              HasSubstr("each head of the model's attention has a sink, a score without a "
                        "key; a size alone, such as {size: 0.8}, or output.format: stock"));
  spec_.mutable_output()->set_format(v1::Output::stock);
  EXPECT_EQ(resolve().widths.largest(), 200);
}

TEST_F(ResolveJob, MapsAreRefusedWhereTheWindowsOfLayersDiffer) {
  config_.layers.back().attention.sliding_window = 64;
  EXPECT_THAT(error(),
              HasSubstr("method: a narrower residual stream is not available: some layers"));
  spec_.mutable_output()->set_format(v1::Output::stock);
  EXPECT_TRUE(resolve().stock_output());
  for (LayerSpec& layer : config_.layers) layer.attention.sliding_window = 64;
  spec_.mutable_output()->clear_format();
  EXPECT_GT(resolve().widths.mapped_count, 0);
}

TEST_F(ResolveJob, MapsAreRefusedForModelsWithFactors) {
  const ModelConfig plain = config_;
  const auto is_refused = [&] {
    const bool refused =
        error().find("its layers' outputs or its logits by factors") != std::string::npos;
    config_ = plain;
    return refused;
  };
  config_.embedding_scale = 3.0;
  EXPECT_TRUE(is_refused());
  config_.logit_scale = 0.5;
  EXPECT_TRUE(is_refused());
  config_.layers.back().residual_scale = 0.5;
  EXPECT_TRUE(is_refused());
  EXPECT_GT(resolve().widths.mapped_count, 0);
}

TEST_F(ResolveJob, MapsAreRefusedForModelsWithNormsBehindTheirSublayers) {
  for (LayerSpec& layer : config_.layers) layer.norms.behind_mlp = "norm";
  EXPECT_THAT(error(), HasSubstr("the model norms what its layers add to the stream"));
  spec_.mutable_output()->set_format(v1::Output::stock);
  EXPECT_THAT(error(), HasSubstr("the model norms what its layers add to the stream"));
}

TEST_F(ResolveJob, WhatChoosesExpertsKeepsItsDtype) {
  config_.layers.back().mlp.mixture = {.experts = 4,
                                       .experts_per_token = 1,
                                       .names = {"mlp", "gate_proj", "up_proj", "down_proj"},
                                       .choice_bias = true};
  const std::string bias =
      name_prefix(config_.num_sublayers() - 1) + "mlp.gate.e_score_correction_bias";
  config_.files.dtypes = {Dtype::kBFloat16,
                          {{bias, Dtype::kFloat32}, {"model.norm.weight", Dtype::kFloat32}}};
  spec_.mutable_output()->set_dtype(v1::Output::float16);
  EXPECT_EQ(resolve().output.dtypes, (StoredDtypes{Dtype::kFloat16, {{bias, Dtype::kFloat32}}}));
}

TEST_F(ResolveJob, TheOutputHasTheDtypeOfTheModelOrTheOneAskedFor) {
  config_.files.dtypes = {};
  EXPECT_EQ(resolve().output.dtypes, StoredDtypes{});
  config_.files.dtypes = {Dtype::kBFloat16, {{"model.norm.weight", Dtype::kFloat32}}};
  EXPECT_EQ(resolve().output.dtypes, config_.files.dtypes);
  spec_.mutable_output()->set_dtype(v1::Output::float16);
  EXPECT_EQ(resolve().output.dtypes, StoredDtypes{Dtype::kFloat16});
}

TEST_F(ResolveJob, TheHeadOfATiedModelHasTheDtypeOfItsEmbedding) {
  config_.tie_word_embeddings = true;
  config_.files.dtypes = {Dtype::kBFloat16, {{"model.embed_tokens.weight", Dtype::kFloat32}}};
  EXPECT_EQ(resolve().output.dtypes.of("lm_head.weight"), Dtype::kFloat32);
  config_.files.dtypes = {Dtype::kBFloat16, {{"lm_head.weight", Dtype::kFloat32}}};  // not read
  EXPECT_EQ(resolve().output.dtypes, StoredDtypes{Dtype::kBFloat16});
}

}  // namespace
}  // namespace dotresize
