#include "tests/job/model/bad_config.h"

#include <gmock/gmock.h>

#include "base/errors.h"
#include "job/model/read_model_config.h"

namespace dotresize {
namespace {

TEST_P(BadConfigs, AreRefusedWithTheReason) {
  try {
    parse_model_config(GetParam().text, "m/config.json");
    FAIL() << "was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("m/config.json: "));
    EXPECT_THAT(error.what(), testing::HasSubstr(GetParam().message));
    EXPECT_LT(std::string(error.what()).size(), 500u);
  }
}

std::vector<BadConfig> bad_keys() {
  return {
      {"Empty", "", "is not valid JSON"},
      {"Truncated", R"({"model_type": "llama")", "is not valid JSON"},
      {"RootIsAList", "[1]", "must be a JSON object, not array"},
      {"DuplicateKey", with(kLlama31Config, R"("vocab_size")", R"("vocab_size": 1, "vocab_size")"),
       "the key 'vocab_size' is given twice"},
      {"NestingBomb", R"({"a": )" + std::string(100000, '['), "is nested deeper than 64"},
      {"NotUtf8", "{\"a\": \"\xff\"}", "is not valid JSON"},
      {"NumberTooLargeForADouble", with(kLlama31Config, "1e-05", "1e999"), "is not valid JSON"},
      {"NanInAUsedKey", with(kLlama31Config, "1e-05", "NaN"), "rms_norm_eps: \"NaN\" is not"},
      {"InfinityInAUsedKey", with(kLlama31Config, "1e-05", "-Infinity"),
       "rms_norm_eps: \"-Infinity\" is not"},
      {"NearlyInfinity", with(kLlama31Config, "1e-05", "Infinite"), "is not valid JSON"},
      {"NoModelType", "{}", "model_type: is missing"},
      {"ModelTypeIsANumber", R"({"model_type": 3})", "model_type: 3 is not a text"},
      {"BothDirections", put(kLlama31Config, R"("is_causal": false)"), "is_causal: is false"},
      {"Gelu", put(kLlama31Config, R"("hidden_act": "gelu")"), "hidden_act: 'gelu' is refused"},
      {"MissingSize", without(kLlama31Config, "hidden_size"), "hidden_size: is missing"},
      {"NegativeSize", put(kLlama31Config, R"("intermediate_size": -14336)"),
       "intermediate_size: -14336 is not a whole"},
      {"ZeroLayers", put(kLlama31Config, R"("num_hidden_layers": 0)"),
       "num_hidden_layers: 0 is not a whole number from 1 to 4096"},
      {"TooManyLayers", put(kLlama31Config, R"("num_hidden_layers": 99999)"),
       "num_hidden_layers: 99999 is not"},
      {"HugeSize", put(kLlama31Config, R"("vocab_size": 18446744073709551615)"),
       "vocab_size: 18446744073709551615 is not a whole number"},
      {"HugerSize", put(kLlama31Config, R"("vocab_size": 99999999999999999999999)"),
       "e+22 is not a whole number"},
      {"FractionalSize", put(kLlama31Config, R"("intermediate_size": 14336.5)"),
       "intermediate_size: 14336.5 is not"},
      {"SizeAsText", put(kLlama31Config, R"("intermediate_size": "14336")"),
       R"(intermediate_size: "14336" is not)"},
      {"SizeAsBool", put(kLlama31Config, R"("intermediate_size": true)"),
       "intermediate_size: true is not"},
      {"KvHeadsDoNotDivide", put(kLlama31Config, R"("num_key_value_heads": 5)"),
       "num_key_value_heads: 5 does not divide num_attention_heads, 32"},
      {"HeadsDoNotDivide", put(kLlama31Config, R"("num_attention_heads": 24)"),
       "num_attention_heads: 24 does not divide hidden_size"},
      {"OddHeadDim", put(kLlama31Config, R"("head_dim": 127)"), "head_dim: 127 is odd"},
      {"HugeHeadDim", put(kLlama31Config, R"("head_dim": 4000000)"), "head_dim: 4000000 is not"},
      {"ZeroEps", put(kLlama31Config, R"("rms_norm_eps": 0)"),
       "rms_norm_eps: 0 is not a number above 0"},
      {"NegativeEps", put(kLlama31Config, R"("rms_norm_eps": -1e-05)"),
       "rms_norm_eps: -1e-05 is not"},
      {"EpsAsText", put(kLlama31Config, R"("rms_norm_eps": "1e-05")"),
       R"(rms_norm_eps: "1e-05" is not)"},
      {"BiasAsNumber", put(kLlama31Config, R"("attention_bias": 1)"),
       "attention_bias: 1 is neither true nor false"},
      {"Phi3WithBiases", put(kPhi3MiniConfig, R"("attention_bias": true)"),
       "attention_bias: a model of the family phi3 has no biases"},
      {"Qwen2WithMlpBiases", put(kQwen25Config, R"("mlp_bias": true)"),
       "mlp_bias: the MLP of a model of the family qwen2 has no biases"},
      {"WindowOnSomeLayersOfAMistral",
       put(kMistralV03Config,
           R"("num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"])"),
       "layer_types: a window on 1 of 2 layers is not supported"},
      {"SoftCapsOfLogits", put(kGemma3Config, R"("final_logit_softcapping": 30.0)"),
       "final_logit_softcapping: is refused; only null is supported"},
      {"NoLimitOfScores", put(kGemma2Config, R"("attn_logit_softcapping": 0)"),
       "attn_logit_softcapping: 0 is not a number above 0"},
      {"PatternOfLettersWithoutLayerTypes",
       R"({"model_type": "exaone4", "hidden_size": 64, "intermediate_size": 96,
           "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
           "vocab_size": 100, "sliding_window": 8, "sliding_window_pattern": "LLLG"})",
       "sliding_window_pattern: \"LLLG\" is not a whole number"},
      {"SiluInAGemma3", put(kGemma3Config, R"("hidden_activation": "silu")"),
       "hidden_activation: 'silu' is refused; only 'gelu_pytorch_tanh' is supported"},
      {"LayerTypesContradictTheWindow",
       put(kQwen25Config,
           R"("num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"])"),
       "layer_types: sliding_attention contradicts use_sliding_window, false"},
      {"LayerTypesTooFew", put(kQwen25Config, R"("layer_types": ["full_attention"])"),
       "layer_types: must be a list of num_hidden_layers, 24, types"},
      {"LayerTypesAreNoList", put(kQwen25Config, R"("layer_types": "full_attention")"),
       "layer_types: must be a list"},
      {"LayerTypeUnknown",
       put(kQwen25Config, R"("num_hidden_layers": 1, "layer_types": ["linear_attention"])"),
       "layer_types: only full_attention and sliding_attention are supported"},
      {"Float8", put(kLlama31Config, R"("torch_dtype": "float8_e4m3fn")"),
       "torch_dtype: 'float8_e4m3fn' is not one of float32, float16, bfloat16"},
      {"DtypesContradict", put(kLlama31Config, R"("dtype": "float32")"),
       "dtype: 'float32' contradicts torch_dtype, 'bfloat16'"},
      {"MistralWithBiases", put(kMistralV03Config, R"("attention_bias": true)"),
       "attention_bias: a model of the family mistral has no biases"},
      {"NullWindowOfAGemma3", put(kGemma3Config, R"("sliding_window": null)"),
       "sliding_window: is null, and 15 of 18 layers have a window"},
      {"NullWindowOfAnExaone4",
       R"({"model_type": "exaone4", "hidden_size": 64, "intermediate_size": 96,
           "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
           "vocab_size": 100, "sliding_window": null,
           "layer_types": ["sliding_attention", "full_attention"]})",
       "sliding_window: is null, and 1 of 2 layers have a window"},
      {"LayerTypesOfASmolLM3WithoutWindow",
       put(kSmolLM3Config, R"("layer_types": ["full_attention"])"),
       "layer_types: must be a list of num_hidden_layers, 36, types"},
      {"WindowsOfASmolLM3WithoutWindow",
       put(kSmolLM3Config, R"("num_hidden_layers": 1, "layer_types": ["sliding_attention"])"),
       "layer_types: sliding_attention contradicts use_sliding_window, false"},
      {"NullScalarOfAGemma3", put(kGemma3Config, R"("query_pre_attn_scalar": null)"),
       "query_pre_attn_scalar: is null"},
      {"NullHeadsOfAGemma3", put(kGemma3Config, R"("num_attention_heads": null)"),
       "num_attention_heads: is missing"},
      {"NullPositions", put(kLlama31Config, R"("max_position_embeddings": null)"),
       "max_position_embeddings: is null"},
      {"NullTie", put(kLlama31Config, R"("tie_word_embeddings": null)"),
       "tie_word_embeddings: is null"},
      {"NullTaps", put(kQwen35Config, R"("linear_conv_kernel_dim": null)"),
       "linear_conv_kernel_dim: is null"},
      {"EmptyScalingOfAGptOss", put(kGptOssConfig, R"("rope_scaling": {})"),
       "rope_scaling: is missing: transformers would take a yarn of its own"},
      {"OldNameOfTheTypeByLayerType",
       put(kGemma3Config, R"("rope_scaling": {"type": "linear", "factor": 8.0})"),
       "rope_scaling.type: is a name that transformers 5 does not look for"},
      {"YarnWithWholeLimitsByLayerType",
       put(kGemma3Config,
           R"("rope_scaling": {"rope_type": "yarn", "factor": 8.0, "truncate": false})"),
       "rope_scaling: truncate is false, which transformers 4 computes"},
      {"ScalingWithoutThePartOfTheParameters",
       put(kGlm4MoeConfig, R"("partial_rotary_factor": null, "rope_theta": 1e6,
           "rope_parameters": {"rope_type": "default", "rope_theta": 1e6,
                               "partial_rotary_factor": 0.25},
           "rope_scaling": {"rope_type": "default"})"),
       "rope_scaling: partial_rotary_factor contradicts that of rope_parameters"},
      {"ZeroWindow", put(kMistralV03Config, R"("sliding_window": 0)"), "sliding_window: 0 is not"},
  };
}

INSTANTIATE_TEST_SUITE_P(Keys, BadConfigs, testing::ValuesIn(bad_keys()), case_name_of);

std::string error_of_config(const std::filesystem::path& model_dir) {
  try {
    read_model_config(model_dir);
  } catch (const InputError& error) {
    return error.what();
  }
  return "was accepted";
}

TEST(BadConfigFile, MissingDirectoryIsNamed) {
  EXPECT_EQ(error_of_config("/nonexistent/m"), "/nonexistent/m: no such model directory");
}

TEST(BadConfigFile, MissingFileIsNamed) {
  const TemporaryDirectory dir;
  EXPECT_EQ(error_of_config(dir.path()), (dir.path() / "config.json").string() + ": no such file");
}

TEST(BadConfigFile, DirectoryInPlaceOfTheFileIsRefused) {
  const TemporaryDirectory dir;
  std::filesystem::create_directory(dir.path() / "config.json");
  EXPECT_THAT(error_of_config(dir.path()), testing::EndsWith("is not a regular file"));
}

TEST(BadConfigFile, MoreThan16MebibytesAreRefused) {
  const TemporaryDirectory dir;
  const auto path = dir.write("config.json", "{");
  std::filesystem::resize_file(path, (16u << 20) + 1);
  EXPECT_THAT(error_of_config(dir.path()), testing::HasSubstr("is larger than 16777216 bytes"));
}

}  // namespace
}  // namespace dotresize
