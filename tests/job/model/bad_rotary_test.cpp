#include "tests/job/model/bad_config.h"

namespace dotresize {
namespace {

/// Returns Qwen3's config.json (128 channels a head) with these rotary settings.
std::string qwen3_with(const std::string& rope_scaling) {
  return put(kQwen3Config, R"("rope_scaling": {)" + rope_scaling + "}");
}

std::string yarn_with(const std::string& more) {
  return qwen3_with(R"("type": "yarn", "factor": 4.0, )" + more);
}

std::string numbers(int count, const std::string& last = "1.5") {
  std::string list = "[";
  for (int i = 1; i < count; ++i) list += "1.0, ";
  return list + last + "]";
}

std::string longrope_with(const std::string& short_factor, const std::string& long_factor,
                          const std::string& more = R"("factor": 4.0)") {
  return qwen3_with(R"("rope_type": "longrope", "short_factor": )" + short_factor +
                    R"(, "long_factor": )" + long_factor + ", " + more);
}

std::vector<BadConfig> bad_rotaries() {
  return {
      {"RotaryOfAGptOssNotStated", without(kGptOssConfig, "rope_scaling"),
       "rope_scaling: is missing: transformers"},
      {"OddPartOfAHead", put(kGlm4MoeConfig, R"("partial_rotary_factor": 0.01)"),
       "partial_rotary_factor: gives 1 rotated channels of 128"},
      {"TwoThetas",
       with(kLlama31Config, R"("rope_type": "llama3")",
            R"("rope_type": "llama3", "rope_theta": 1e4)"),
       "rope_scaling: rope_theta 10000.0 contradicts the one outside, 500000.0"},
      {"UnknownRotary", put(kLlama31Config, R"("rope_scaling": {"rope_type": "mrope"})"),
       "rope_scaling.rope_type: 'mrope' is not supported; default, linear, dynamic, yarn, "
       "longrope, llama3 are"},
      {"RotaryNamesContradict", qwen3_with(R"("type": "linear", "rope_type": "yarn")"),
       "rope_scaling.type: 'linear' contradicts rope_type, 'yarn'"},
      {"LinearWithoutFactor", qwen3_with(R"("type": "linear")"), "rope_scaling.factor: is missing"},
      {"LinearThatShortens", qwen3_with(R"("type": "linear", "factor": 0.5)"),
       "rope_scaling.factor: 0.5 is below 1"},
      {"DynamicWithoutFactor", qwen3_with(R"("rope_type": "dynamic")"),
       "rope_scaling.factor: is missing"},
      {"DynamicOfTwoChannels",
       put(qwen3_with(R"("type": "dynamic", "factor": 2.0)"), R"("head_dim": 2)"),
       "'dynamic' needs heads with at least 4 rotated channels, not 2"},
      {"YarnFactorAsText", qwen3_with(R"("type": "yarn", "factor": "4")"),
       R"(rope_scaling.factor: "4" is not a number above 0)"},
      {"YarnOfNoContext", yarn_with(R"("original_max_position_embeddings": 0)"),
       "rope_scaling.original_max_position_embeddings: 0 is not a whole number from 1"},
      {"YarnAttentionFactor", yarn_with(R"("attention_factor": -1)"),
       "rope_scaling.attention_factor: -1 is not a number above 0"},
      {"YarnMscale", yarn_with(R"("mscale": "1")"), "rope_scaling.mscale: is not a number from 0"},
      {"YarnMscaleAllDim", yarn_with(R"("mscale_all_dim": 1e9)"),
       "rope_scaling.mscale_all_dim: is not a number from 0 to 1e+06"},
      {"YarnBetas", yarn_with(R"("beta_fast": 2, "beta_slow": 3)"),
       "rope_scaling.beta_fast: 2.0 is below beta_slow, 3.0"},
      {"YarnBetaAsList", yarn_with(R"("beta_slow": [1])"), "rope_scaling.beta_slow: [1] is not"},
      {"YarnTruncate", yarn_with(R"("truncate": 1)"),
       "rope_scaling.truncate: 1 is neither true nor false"},
      {"YarnTheta", put(yarn_with(R"("truncate": true)"), R"("rope_theta": 1)"),
       "rope_theta: 1.0 is not above 1, as yarn needs it"},
      {"LongropeWithoutShortFactors", qwen3_with(R"("type": "longrope")"),
       "rope_scaling.short_factor: is missing"},
      {"LongropeTooFew", longrope_with(numbers(63), numbers(64)),
       "rope_scaling.short_factor: must be a list of 64 numbers, not of 63"},
      {"LongropeTooMany", longrope_with(numbers(64), numbers(65)),
       "rope_scaling.long_factor: must be a list of 64 numbers, not of 65"},
      {"LongropeNoList", longrope_with(numbers(64), "2.0"),
       "rope_scaling.long_factor: must be a list of 64 numbers"},
      {"LongropeZero", longrope_with(numbers(64, "0.0"), numbers(64)),
       "rope_scaling.short_factor: 0.0 is not a number above 0"},
      {"LongropeNull", longrope_with(numbers(64), numbers(64, "null")),
       "rope_scaling.long_factor: is missing"},
      {"LongropeFactor", longrope_with(numbers(64), numbers(64), R"("factor": 0.25)"),
       "rope_scaling.factor: 0.25 is below 1"},
      {"LongropeContextOfOne",
       longrope_with(numbers(64), numbers(64), R"("original_max_position_embeddings": 1)"),
       "rope_scaling.original_max_position_embeddings: 1 is too few; at least 2"},
      {"LongropeContextsContradict",
       put(longrope_with(numbers(64), numbers(64), R"("original_max_position_embeddings": 64)"),
           R"("original_max_position_embeddings": 32)"),
       "rope_scaling.original_max_position_embeddings: 64 contradicts that of the model, 32"},
      {"ScalingIsAList", put(kMistralV03Config, R"("rope_scaling": [])"),
       "rope_scaling: [] is not an object"},
      {"ScalingWithoutFactor", with(kLlama31Config, R"("factor": 8.0,)", ""),
       "rope_scaling.factor: is missing"},
      {"FrequenciesSwapped",
       with(kLlama31Config, R"("low_freq_factor": 1.0)", R"("low_freq_factor": 9.0)"),
       "rope_scaling.high_freq_factor: 4.0 is not above low_freq_factor, 9.0"},
      {"RotaryDialectsContradict", put(kLlama31Config, R"("rope_parameters": {"rope_theta": 1e4})"),
       "rope_parameters: contradicts rope_theta and rope_scaling"},
      {"RotaryByLayerType", put(kLlama31Config, R"("rope_parameters": {"full_attention": {}})"),
       "rope_parameters: settings by layer type are not supported"},
      {"PartialRotary", put(kLlama31Config, R"("partial_rotary_factor": 0.5)"),
       "partial_rotary_factor: only 1.0 is supported for the family llama"},
      {"PartialRotaryInRopeParameters",
       put(kMistralV03Config,
           R"("rope_parameters": {"rope_theta": 1e6, "partial_rotary_factor": 0.5})"),
       "partial_rotary_factor: only 1.0 is supported for the family mistral"},
      {"PartialRotaryOfOddWidth", put(kPhi3MiniConfig, R"("partial_rotary_factor": 0.553)"),
       "partial_rotary_factor: gives 53 rotated channels of 96; an even number"},
      {"PartialRotaryOfNothing", put(kPhi3MiniConfig, R"("partial_rotary_factor": 1e-9)"),
       "partial_rotary_factor: gives 0 rotated channels of 96"},
      {"PartialRotaryContradicts", put(kPhi3MiniConfig, R"("partial_rotary_factor": 0.5,
                    "rope_parameters": {"partial_rotary_factor": 0.75})"),
       "partial_rotary_factor: contradicts that of rope_parameters"},
      {"Phi3LongropeOfAllChannels",
       put(kPhi3MiniConfig,
           R"("partial_rotary_factor": 0.75, "rope_scaling": {"type": "longrope", "short_factor": )" +
               numbers(48) + "}"),
       "rope_scaling.short_factor: must be a list of 36 numbers, not of 48"},
      {"Phi3LongropeByItsOldName", put(kPhi3MiniConfig, R"("rope_scaling": {"type": "su"})"),
       "rope_scaling.short_factor: is missing"},
      {"Phi3Llama3",
       put(kPhi3MiniConfig, R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0})"),
       "rope_scaling.rope_type: 'llama3' is refused, as transformers does for the family phi3; "
       "default and longrope are supported"},
      {"Phi3Linear", put(kPhi3MiniConfig, R"("rope_scaling": {"type": "linear", "factor": 8.0})"),
       "rope_scaling.rope_type: 'linear' is refused"},
      {"OldNameOfAnotherFamily", qwen3_with(R"("type": "su")"),
       "rope_scaling.rope_type: 'su' is not supported"},
      {"RotaryLayersTooFew", put(kSmolLM3Config, R"("num_hidden_layers": 37)"),
       "no_rope_layers: must be a list of at least num_hidden_layers, 37, numbers"},
      {"RotaryLayersOfAnotherKind", with(kSmolLM3Config, "[1, 1, 1, 0,", "[1, true, 1, 0,"),
       "no_rope_layers: true is not a whole number from 0 to 1"},
      {"ThetaOfSomeLayersOfAnOlmo3", put(kOlmo3Config, R"("rope_theta": 10000)"),
       "rope_theta: is that of all layers in transformers 4"},
      {"Ministral3WithoutYarn",
       with(with(kMinistral3Config, R"("rope_type": "yarn",)", R"("rope_type": "linear",)"),
            R"("type": "yarn")", R"("type": "linear")"),
       "rope_parameters.rope_type: 'linear' is refused; yarn is needed"},
      {"Ministral3WithoutFactorOfQueries",
       with(kMinistral3Config, R"("llama_4_scaling_beta": 0.1,)", ""),
       "rope_parameters.llama_4_scaling_beta: is missing"},
      {"OneRotaryEmbeddingForBothTypes",
       put(kGemma3Config, R"("rope_parameters": {"rope_type": "default", "rope_theta": 1e6})"),
       "rope_parameters: full_attention is missing"},
      {"LocalBaseThatContradicts",
       put(kGemma3Config,
           R"("rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
               "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}})"),
       "rope_parameters: contradicts"},
      {"NegativeTheta", put(kLlama31Config, R"("rope_theta": -1)"), "rope_theta: -1 is not"},
  };
}

INSTANTIATE_TEST_SUITE_P(Rotary, BadConfigs, testing::ValuesIn(bad_rotaries()), case_name_of);

}  // namespace
}  // namespace dotresize
