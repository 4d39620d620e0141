#include <gmock/gmock.h>

#include "base/errors.h"
#include "job/model/read_model_config.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

struct BadConfig {
  std::string name;
  std::string text;
  std::string message;  ///< part of the error message
};

void PrintTo(const BadConfig& config, std::ostream* out) { *out << config.name; }

std::string llama_with(const std::string& from, const std::string& to) {
  return with(kLlama31Config, from, to);
}

std::string compressed_with(const std::string& from, const std::string& to) {
  return with(R"({"model_type": "dotresize", "source_model_type": "llama",
      "junction_widths": [6, 7, 8], "hidden_size": 8, "intermediate_size": 16,
      "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10,
      "tie_word_embeddings": false})",
              from, to);
}

/// Returns a compressed glm4_moe whose second layer has two groups of four experts, with this list.
std::string glm4_moe_with_experts(const std::string& list) {
  return R"({"model_type": "dotresize", "source_model_type": "glm4_moe",
      "junction_widths": [8, 8, 8, 8, 8], "norm_weights": true, "hidden_size": 8,
      "intermediate_size": 16, "moe_intermediate_size": 4, "num_hidden_layers": 2,
      "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 10,
      "n_routed_experts": 8, "num_experts_per_tok": 3, "n_group": 2, "topk_group": 1,
      "expert_counts": )" +
         list + "}";
}

std::string quantised(const std::string& keys) {
  return llama_with(R"("use_cache": true)", R"("quantization_config": {)" + keys + "}");
}

/// Returns a config of compressed-tensors, in whose weights one key differs from float8 by matrix.
std::string compressed(const std::string& format, const std::string& key) {
  return quantised(R"("quant_method": "compressed-tensors", "format": ")" + format +
                   R"(", "config_groups": {"one": {"weights": {)" + key + "}}}");
}

std::string of_type(const std::string& model_type) {
  return llama_with(R"("model_type": "llama")", R"("model_type": ")" + model_type + '"');
}

std::string qwen2_with(const std::string& keys) {
  return with(kQwen25Config, R"("use_sliding_window": false,)", keys);
}

std::string qwen2_of_layers(int layers, const std::string& keys) {
  return with(qwen2_with(keys), R"("num_hidden_layers": 24)",
              R"("num_hidden_layers": )" + std::to_string(layers));
}

std::string phi3_with(const std::string& keys) {
  return with(kPhi3MiniConfig, R"("rope_scaling": null,)", keys);
}

std::string mixtral_with(const std::string& from, const std::string& to) {
  return with(kMixtralConfig, from, to);
}

std::string qwen3_moe_with(const std::string& from, const std::string& to) {
  return with(kQwen3MoeConfig, from, to);
}

std::string qwen2_moe_with(const std::string& from, const std::string& to) {
  return with(kQwen2MoeConfig, from, to);
}

std::string glm4_moe_with(const std::string& from, const std::string& to) {
  return with(kGlm4MoeConfig, from, to);
}

/// Returns Qwen3's config.json (128 channels a head) with these rotary settings.
std::string qwen3_with(const std::string& rope_scaling) {
  return with(kQwen3Config, R"("rope_scaling": null)", R"("rope_scaling": {)" + rope_scaling + "}");
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

std::vector<BadConfig> bad_configs() {
  return {
      {"Empty", "", "is not valid JSON"},
      {"Truncated", R"({"model_type": "llama")", "is not valid JSON"},
      {"RootIsAList", "[1]", "must be a JSON object, not array"},
      {"DuplicateKey", llama_with(R"("vocab_size")", R"("vocab_size": 1, "vocab_size")"),
       "the key 'vocab_size' is given twice"},
      {"NestingBomb", R"({"a": )" + std::string(100000, '['), "is nested deeper than 64"},
      {"NotUtf8", "{\"a\": \"\xff\"}", "is not valid JSON"},
      {"NumberTooLargeForADouble", llama_with("1e-05", "1e999"), "is not valid JSON"},
      {"NanInAUsedKey", llama_with("1e-05", "NaN"), "rms_norm_eps: \"NaN\" is not"},
      {"InfinityInAUsedKey", llama_with("1e-05", "-Infinity"),
       "rms_norm_eps: \"-Infinity\" is not"},
      {"NearlyInfinity", llama_with("1e-05", "Infinite"), "is not valid JSON"},
      {"NoModelType", "{}", "model_type: is missing"},
      {"ModelTypeIsANumber", R"({"model_type": 3})", "model_type: 3 is not a text"},
      {"Gpt2", of_type("gpt2"), "'gpt2' is refused: it uses LayerNorm"},
      {"WrapperOfNothing", of_type("gemma3"), "text_config: is missing"},
      {"UnknownWrapper", R"({"model_type": "paligemma", "text_config": {"model_type": "gemma"}})",
       "'paligemma' is refused: of the models around one of text, gemma3, llava, mistral3, "
       "qwen3_5, qwen3_5_moe are read"},
      {"WrapperOfAnUnknownFamily",
       R"({"model_type": "llava", "text_config": {"model_type": "nonesuch"}})",
       "text_config.model_type: 'nonesuch' is refused: this architecture is not known"},
      {"WrapperWithAnotherHead",
       R"({"model_type": "llava", "architectures": ["LlavaModel"], "text_config": {}})",
       R"(architectures: ["LlavaModel"] is refused)"},
      {"QuantisedWrapper",
       R"({"model_type": "llava", "quantization_config": {"bits": 4}, "text_config": {}})",
       "config.json: quantization_config: quantised checkpoints are refused (without"},
      {"WrapperWithAMissingSize", R"({"model_type": "gemma3", "text_config": {"hidden_size": 8}})",
       "text_config.intermediate_size: is missing"},
      {"GptNeox", of_type("gpt_neox"), "(parallel blocks)"},
      {"Falcon", of_type("falcon"), "(parallel blocks)"},
      {"Ministral", of_type("ministral"),
       "'ministral' is refused: it is not supported yet; accepted are llama, mistral, ministral3, "
       "phi3, qwen2, qwen3, smollm3, granite, seed_oss, gemma, gemma2, gemma3_text, olmo2, olmo3, "
       "glm4, exaone4, hunyuan_v1_dense, qwen3_5_text, mixtral, qwen3_moe, "
       "qwen2_moe, glm4_moe, gpt_oss, qwen3_5_moe_text, alone or as the text part of gemma3, "
       "llava, mistral3, qwen3_5, qwen3_5_moe"},
      {"RotaryOfAGptOssNotStated", with(kGptOssConfig, "rope_scaling", "rope_setting"),
       "rope_scaling: is missing: transformers"},
      {"GptOssWithoutALimit", with(kGptOssConfig, R"("swiglu_limit": 7.0)", R"("swiglu_limit": 0)"),
       "swiglu_limit: 0 is not"},
      {"GptOssWhoseLimitIsNull",
       with(kGptOssConfig, R"("swiglu_limit": 7.0)", R"("swiglu_limit": null)"),
       "swiglu_limit: is null"},
      {"SharedExpertWithoutSize", qwen2_moe_with(R"("shared_expert_intermediate_size": 5632,)", ""),
       "shared_expert_intermediate_size: is missing"},
      {"SharedExpertOfNoSize",
       qwen2_moe_with(R"("shared_expert_intermediate_size": 5632)",
                      R"("shared_expert_intermediate_size": 0)"),
       "shared_expert_intermediate_size: 0 is not a whole number from 1 to 4194304"},
      {"Qwen2MoeBiasesAreNull", qwen2_moe_with("{", R"({"qkv_bias": null, )"), "qkv_bias: is null"},
      {"Qwen2MoeWithWindows",
       qwen2_moe_with(R"("use_sliding_window": false)", R"("use_sliding_window": true)"),
       "use_sliding_window: true is refused; only false is supported"},
      {"Qwen2MoeWithAWindow",
       qwen2_moe_with(R"("num_hidden_layers": 24)",
                      R"("num_hidden_layers": 1, "layer_types": ["sliding_attention"])"),
       "layer_types: sliding_attention contradicts use_sliding_window, false"},
      {"Qwen2MoeWithAnotherActivation", qwen2_moe_with("silu", "gelu"),
       "hidden_act: 'gelu' is refused"},
      {"NoGroupsOfExperts", glm4_moe_with(R"("n_group": 1)", R"("n_group": 0)"),
       "n_group: 0 is not a whole number"},
      {"GroupsThatDoNotDivide", glm4_moe_with(R"("n_group": 1)", R"("n_group": 3)"),
       "n_group: 3 does not divide n_routed_experts, 160, into groups of two or more"},
      {"GroupsOfOne", glm4_moe_with(R"("n_group": 1)", R"("n_group": 160)"),
       "n_group: 160 does not divide n_routed_experts, 160, into groups of two or more"},
      {"MoreGroupsPerTokenThanThereAre", glm4_moe_with(R"("topk_group": 1)", R"("topk_group": 2)"),
       "topk_group: 2 is above n_group, 1"},
      {"MoreExpertsPerTokenThanItsGroupsHave", glm4_moe_with(R"("n_group": 1)", R"("n_group": 40)"),
       "num_experts_per_tok: 8 is above the experts of topk_group groups, 4"},
      {"NoSharedExperts", glm4_moe_with(R"("n_shared_experts": 1)", R"("n_shared_experts": 0)"),
       "n_shared_experts: 0 is not a whole number"},
      {"SharedExpertsAreNull",
       glm4_moe_with(R"("n_shared_experts": 1)", R"("n_shared_experts": null)"),
       "n_shared_experts: is null"},
      {"NegativeScaleOfRouting",
       glm4_moe_with(R"("routed_scaling_factor": 2.5)", R"("routed_scaling_factor": -1)"),
       "routed_scaling_factor: -1 is not"},
      {"DenseLayersBelowNone",
       glm4_moe_with(R"("first_k_dense_replace": 3)", R"("first_k_dense_replace": -1)"),
       "first_k_dense_replace: -1 is not"},
      {"NormsOfHeadsNeitherThereNorNot",
       glm4_moe_with(R"("use_qk_norm": true)", R"("use_qk_norm": 1)"), "use_qk_norm: 1 is neither"},
      {"OddPartOfAHead",
       glm4_moe_with(R"("partial_rotary_factor": 0.5)", R"("partial_rotary_factor": 0.01)"),
       "partial_rotary_factor: gives 1 rotated channels of 128"},
      {"NoExperts", mixtral_with(R"("num_local_experts": 8)", R"("num_local_experts": 0)"),
       "num_local_experts: 0 is not a whole number from 1 to 2048"},
      {"ExpertsNotCounted", mixtral_with(R"("num_local_experts": 8,)", ""),
       "num_local_experts: is missing"},
      {"Qwen3MoeExpertsNotCounted", qwen3_moe_with(R"("num_experts": 128,)", ""),
       "num_experts: is missing"},
      {"ExpertCountsContradict",
       qwen3_moe_with(R"("num_experts": 128)", R"("num_experts": 128, "num_local_experts": 64)"),
       "num_local_experts: contradicts num_experts, 128"},
      {"MoreExpertsPerTokenThanThereAre",
       mixtral_with(R"("num_experts_per_tok": 2)", R"("num_experts_per_tok": 9)"),
       "num_experts_per_tok: 9 is above 8, the number of experts"},
      {"NoExpertsPerToken",
       mixtral_with(R"("num_experts_per_tok": 2)", R"("num_experts_per_tok": 0)"),
       "num_experts_per_tok: 0 is not a whole number"},
      {"ExpertsWithoutSize", qwen3_moe_with(R"("moe_intermediate_size": 768,)", ""),
       "moe_intermediate_size: is missing"},
      {"ExpertsTooLarge", qwen3_moe_with("768", "32769"),
       "moe_intermediate_size: 32769 rows in each of 128 experts are above 4194304 together"},
      {"DenseLayerBeyondTheLast",
       qwen3_moe_with(R"("mlp_only_layers": [])", R"("mlp_only_layers": [48])"),
       "mlp_only_layers: 48 is not a whole number from 0 to 47"},
      {"DenseLayersAreNoList",
       qwen3_moe_with(R"("mlp_only_layers": [])", R"("mlp_only_layers": 3)"),
       "mlp_only_layers: must be a list"},
      {"SparseStepZero",
       qwen3_moe_with(R"("decoder_sparse_step": 1)", R"("decoder_sparse_step": 0)"),
       "decoder_sparse_step: 0 is not"},
      {"RoutingNeitherNormedNorNot",
       qwen3_moe_with(R"("norm_topk_prob": true)", R"("norm_topk_prob": 1)"),
       "norm_topk_prob: 1 is neither true nor false"},
      {"UnknownType", of_type("nonesuch"), "'nonesuch' is refused: this architecture is not known"},
      {"OtherHead", llama_with("LlamaForCausalLM", "LlamaForSequenceClassification"),
       R"(["LlamaForSequenceClassification"] is refused)"},
      {"Quantised", llama_with(R"("use_cache": true)", R"("quantization_config": {"bits": 4})"),
       "quantization_config: quantised checkpoints are refused (without quant_method)"},
      {"BitsAndBytes", quantised(R"("quant_method": "bitsandbytes")"),
       "bfloat16 model that it was made from, or let transformers dequantise it"},
      // transformers would load weights of a method that it does not know as if they were plain.
      {"ModelOpt", quantised(R"("quant_method": "modelopt")"),
       "with 8 bits; give the float32, float16 or bfloat16 model that it was made from (if these"},
      {"Gptq", quantised(R"("quant_method": "gptq")"),
       "quantization_config: quantised checkpoints are refused ('gptq'), unless of fp8, mxfp4 or "
       "compressed-tensors with 8 bits; give the float32, float16 or bfloat16 model"},
      {"Fp8OfAnotherForm", quantised(R"("quant_method": "fp8", "fmt": "e5m2")"),
       "quantization_config.fmt: is not e4m3"},
      {"Fp8WithExpertsOf4Bits", quantised(R"("quant_method": "fp8", "expert_dtype": "fp4")"),
       "quantization_config.expert_dtype: is not fp8"},
      {"Fp8InBlocksOfNothing", quantised(R"("quant_method": "fp8", "weight_block_size": [0, 128])"),
       "quantization_config.weight_block_size: 0 is not a whole number from 1"},
      {"Fp8InBlocksOfOneNumber", quantised(R"("quant_method": "fp8", "weight_block_size": [128])"),
       "quantization_config.weight_block_size: is not a list of two sizes"},
      {"PackedWeights", compressed("pack-quantized", ""),
       "int-quantized and naive-quantized are; give the float32, float16 or bfloat16 model that it "
       "was made from, or let transformers dequantise it: "
       "AutoModelForCausalLM.from_pretrained(DIR, "
       "quantization_config=CompressedTensorsConfig(dequantize=True))"},
      {"WeightsOf4Bits", compressed("int-quantized", R"("num_bits": 4)"),
       "quantization_config.config_groups.one.weights.num_bits: weights of 4 bits (int)"},
      {"ZeroPoints", compressed("int-quantized", R"("symmetric": false)"),
       "quantization_config.config_groups.one.weights.symmetric: is false"},
      {"GroupsOfARow", compressed("int-quantized", R"("strategy": "group")"),
       "quantization_config.config_groups.one.weights.strategy: 'group' is not read"},
      {"SparseWeights",
       quantised(R"("quant_method": "compressed-tensors", "format": "float-quantized",
                    "sparsity_config": {"format": "sparse-24-bitmask"})"),
       "quantization_config.sparsity_config.format: is not dense"},
      {"TransformedWeights",
       quantised(R"("quant_method": "compressed-tensors", "format": "float-quantized",
                    "transform_config": {"config_groups": {}})"),
       "quantization_config.transform_config: is there"},
      {"NoGroups",
       quantised(R"("quant_method": "compressed-tensors", "format": "float-quantized")"),
       "quantization_config.config_groups: is missing"},
      {"BothDirections", llama_with(R"("use_cache": true)", R"("is_causal": false)"),
       "is_causal: is false"},
      {"TwoThetas",
       llama_with(R"("rope_type": "llama3")", R"("rope_type": "llama3", "rope_theta": 1e4)"),
       "rope_scaling: rope_theta 10000.0 contradicts the one outside, 500000.0"},
      {"Gelu", llama_with("silu", "gelu"), "hidden_act: 'gelu' is refused"},
      {"MissingSize", llama_with(R"("hidden_size": 4096,)", ""), "hidden_size: is missing"},
      {"NegativeSize", llama_with("14336", "-14336"), "intermediate_size: -14336 is not a whole"},
      {"ZeroLayers", llama_with(R"("num_hidden_layers": 32)", R"("num_hidden_layers": 0)"),
       "num_hidden_layers: 0 is not a whole number from 1 to 4096"},
      {"TooManyLayers", llama_with(R"("num_hidden_layers": 32)", R"("num_hidden_layers": 99999)"),
       "num_hidden_layers: 99999 is not"},
      {"HugeSize", llama_with("128256", "18446744073709551615"),
       "vocab_size: 18446744073709551615 is not a whole number"},
      {"HugerSize", llama_with("128256", "99999999999999999999999"), "e+22 is not a whole number"},
      {"FractionalSize", llama_with("14336", "14336.5"), "intermediate_size: 14336.5 is not"},
      {"SizeAsText", llama_with("14336", R"("14336")"), R"(intermediate_size: "14336" is not)"},
      {"SizeAsBool", llama_with("14336", "true"), "intermediate_size: true is not"},
      {"KvHeadsDoNotDivide",
       llama_with(R"("num_key_value_heads": 8)", R"("num_key_value_heads": 5)"),
       "num_key_value_heads: 5 does not divide num_attention_heads, 32"},
      {"HeadsDoNotDivide",
       llama_with(R"("num_attention_heads": 32)", R"("num_attention_heads": 24)"),
       "num_attention_heads: 24 does not divide hidden_size"},
      {"OddHeadDim", llama_with(R"("mlp_bias": false)", R"("head_dim": 127)"),
       "head_dim: 127 is odd"},
      {"HugeHeadDim", llama_with(R"("mlp_bias": false)", R"("head_dim": 4000000)"),
       "head_dim: 4000000 is not"},
      {"ZeroEps", llama_with("1e-05", "0"), "rms_norm_eps: 0 is not a number above 0"},
      {"NegativeEps", llama_with("1e-05", "-1e-05"), "rms_norm_eps: -1e-05 is not"},
      {"EpsAsText", llama_with("1e-05", R"("1e-05")"), R"(rms_norm_eps: "1e-05" is not)"},
      {"BiasAsNumber", llama_with(R"("attention_bias": false)", R"("attention_bias": 1)"),
       "attention_bias: 1 is neither true nor false"},
      {"UnknownRotary", llama_with("llama3", "mrope"),
       "rope_scaling.rope_type: 'mrope' is not supported; default, linear, dynamic, yarn, "
       "longrope, "
       "llama3 are"},
      {"RotaryNamesContradict", qwen3_with(R"("type": "linear", "rope_type": "yarn")"),
       "rope_scaling.type: 'linear' contradicts rope_type, 'yarn'"},
      {"LinearWithoutFactor", qwen3_with(R"("type": "linear")"), "rope_scaling.factor: is missing"},
      {"LinearThatShortens", qwen3_with(R"("type": "linear", "factor": 0.5)"),
       "rope_scaling.factor: 0.5 is below 1"},
      {"DynamicWithoutFactor", qwen3_with(R"("rope_type": "dynamic")"),
       "rope_scaling.factor: is missing"},
      {"DynamicOfTwoChannels",
       with(qwen3_with(R"("type": "dynamic", "factor": 2.0)"), R"("head_dim": 128)",
            R"("head_dim": 2)"),
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
      {"YarnTheta",
       with(yarn_with(R"("truncate": true)"), R"("rope_theta": 1000000)", R"("rope_theta": 1)"),
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
       with(longrope_with(numbers(64), numbers(64), R"("original_max_position_embeddings": 64)"),
            R"("use_cache": true)", R"("original_max_position_embeddings": 32)"),
       "rope_scaling.original_max_position_embeddings: 64 contradicts that of the model, 32"},
      {"ScalingIsAList", with(kMistralV03Config, R"("use_cache": true)", R"("rope_scaling": [])"),
       "rope_scaling: [] is not an object"},
      {"ScalingWithoutFactor", llama_with(R"("factor": 8.0,)", ""),
       "rope_scaling.factor: is missing"},
      {"FrequenciesSwapped", llama_with(R"("low_freq_factor": 1.0)", R"("low_freq_factor": 9.0)"),
       "rope_scaling.high_freq_factor: 4.0 is not above low_freq_factor, 9.0"},
      {"RotaryDialectsContradict",
       llama_with(R"("use_cache": true)", R"("rope_parameters": {"rope_theta": 1e4})"),
       "rope_parameters: contradicts rope_theta and rope_scaling"},
      {"RotaryByLayerType",
       llama_with(R"("use_cache": true)", R"("rope_parameters": {"full_attention": {}})"),
       "rope_parameters: settings by layer type are not supported"},
      {"PartialRotary", llama_with(R"("use_cache": true)", R"("partial_rotary_factor": 0.5)"),
       "partial_rotary_factor: only 1.0 is supported for the family llama"},
      {"PartialRotaryInRopeParameters",
       with(kMistralV03Config, R"("rope_theta": 1000000.0)",
            R"("rope_parameters": {"rope_theta": 1e6, "partial_rotary_factor": 0.5})"),
       "partial_rotary_factor: only 1.0 is supported for the family mistral"},
      {"PartialRotaryOfOddWidth", phi3_with(R"("partial_rotary_factor": 0.553,)"),
       "partial_rotary_factor: gives 53 rotated channels of 96; an even number"},
      {"PartialRotaryOfNothing", phi3_with(R"("partial_rotary_factor": 1e-9,)"),
       "partial_rotary_factor: gives 0 rotated channels of 96"},
      {"PartialRotaryContradicts", phi3_with(R"("partial_rotary_factor": 0.5,
                    "rope_parameters": {"partial_rotary_factor": 0.75},)"),
       "partial_rotary_factor: contradicts that of rope_parameters"},
      {"Phi3LongropeOfAllChannels",
       phi3_with(R"("partial_rotary_factor": 0.75, "rope_scaling": {"type": "longrope",
                    "short_factor": )" +
                 numbers(48) + "},"),
       "rope_scaling.short_factor: must be a list of 36 numbers, not of 48"},
      {"Phi3LongropeByItsOldName", phi3_with(R"("rope_scaling": {"type": "su"},)"),
       "rope_scaling.short_factor: is missing"},
      {"Phi3Llama3", phi3_with(R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0},)"),
       "rope_scaling.rope_type: 'llama3' is refused, as transformers does for the family phi3; "
       "default and longrope are supported"},
      {"Phi3Linear", phi3_with(R"("rope_scaling": {"type": "linear", "factor": 8.0},)"),
       "rope_scaling.rope_type: 'linear' is refused"},
      {"OldNameOfAnotherFamily", qwen3_with(R"("type": "su")"),
       "rope_scaling.rope_type: 'su' is not supported"},
      {"Phi3WithBiases",
       with(kPhi3MiniConfig, R"("attention_bias": false)", R"("attention_bias": true)"),
       "attention_bias: a model of the family phi3 has no biases"},
      {"Qwen2WithMlpBiases", qwen2_with(R"("mlp_bias": true,)"),
       "mlp_bias: the MLP of a model of the family qwen2 has no biases"},
      {"WindowOnSomeLayersOfAMistral",
       with(with(kMistralV03Config, R"("num_hidden_layers": 32)", R"("num_hidden_layers": 2)"),
            R"("rope_theta")",
            R"("layer_types": ["full_attention", "sliding_attention"], "rope_theta")"),
       "layer_types: a window on 1 of 2 layers is not supported"},
      {"RotaryLayersTooFew",
       with(kSmolLM3Config, R"("num_hidden_layers": 36)", R"("num_hidden_layers": 37)"),
       "no_rope_layers: must be a list of at least num_hidden_layers, 37, numbers"},
      {"SoftCapsOfLogits",
       with(kGemma3Config, R"("final_logit_softcapping": null)",
            R"("final_logit_softcapping": 30.0)"),
       "final_logit_softcapping: is refused; only null is supported"},
      {"NoLimitOfScores",
       with(kGemma2Config, R"("attn_logit_softcapping": 50.0)", R"("attn_logit_softcapping": 0)"),
       "attn_logit_softcapping: 0 is not a number above 0"},
      {"ThetaOfSomeLayersOfAnOlmo3",
       with(kOlmo3Config, R"("rope_theta": 500000)", R"("rope_theta": 10000)"),
       "rope_theta: is that of all layers in transformers 4"},
      {"Ministral3WithoutYarn",
       with(with(kMinistral3Config, R"("rope_type": "yarn",)", R"("rope_type": "linear",)"),
            R"("type": "yarn")", R"("type": "linear")"),
       "rope_parameters.rope_type: 'linear' is refused; yarn is needed"},
      {"Ministral3WithoutFactorOfQueries",
       with(kMinistral3Config, R"("llama_4_scaling_beta": 0.1,)", ""),
       "rope_parameters.llama_4_scaling_beta: is missing"},
      {"OtherGateOfADeltaNet",
       with(kQwen35Config, R"("attn_output_gate": true,)", R"("output_gate_type": "sigmoid",)"),
       "output_gate_type: 'sigmoid' is refused; only 'swish' is supported"},
      {"PatternOfLettersWithoutLayerTypes",
       R"({"model_type": "exaone4", "hidden_size": 64, "intermediate_size": 96,
           "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
           "vocab_size": 100, "sliding_window": 8, "sliding_window_pattern": "LLLG"})",
       "sliding_window_pattern: \"LLLG\" is not a whole number"},
      {"SiluInAGemma3", with(kGemma3Config, "gelu_pytorch_tanh", "silu"),
       "hidden_activation: 'silu' is refused; only 'gelu_pytorch_tanh' is supported"},
      {"OneRotaryEmbeddingForBothTypes",
       with(kGemma3Config, R"("rope_scaling": null)",
            R"("rope_parameters": {"rope_type": "default", "rope_theta": 1e6})"),
       "rope_parameters: full_attention is missing"},
      {"LocalBaseThatContradicts",
       with(kGemma3Config, R"("rope_scaling": null)",
            R"("rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
               "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}})"),
       "rope_parameters: contradicts"},
      {"RotaryLayersOfAnotherKind", with(kSmolLM3Config, "[1, 1, 1, 0,", "[1, true, 1, 0,"),
       "no_rope_layers: true is not a whole number from 0 to 1"},
      {"LayerTypesContradictTheWindow",
       qwen2_of_layers(2, R"("layer_types": ["full_attention", "sliding_attention"],)"),
       "layer_types: sliding_attention contradicts use_sliding_window, false"},
      {"LayerTypesTooFew", qwen2_with(R"("layer_types": ["full_attention"],)"),
       "layer_types: must be a list of num_hidden_layers, 24, types"},
      {"LayerTypesAreNoList", qwen2_with(R"("layer_types": "full_attention",)"),
       "layer_types: must be a list"},
      {"LayerTypeUnknown", qwen2_of_layers(1, R"("layer_types": ["linear_attention"],)"),
       "layer_types: only full_attention and sliding_attention are supported"},
      {"NegativeTheta", llama_with("500000.0", "-1"), "rope_theta: -1 is not"},
      {"Float8", llama_with("bfloat16", "float8_e4m3fn"),
       "torch_dtype: 'float8_e4m3fn' is not one of float32, float16, bfloat16"},
      {"DtypesContradict", llama_with(R"("use_cache": true)", R"("dtype": "float32")"),
       "dtype: 'float32' contradicts torch_dtype, 'bfloat16'"},
      {"MistralWithBiases",
       with(kMistralV03Config, R"("use_cache": true)", R"("attention_bias": true)"),
       "attention_bias: a model of the family mistral has no biases"},
      {"ZeroWindow", with(kMistralV03Config, R"("sliding_window": null)", R"("sliding_window": 0)"),
       "sliding_window: 0 is not"},
      {"CompressedWithoutSource", compressed_with(R"("source_model_type": "llama",)", ""),
       "source_model_type: is missing"},
      {"CompressedOfUnknownSource", compressed_with(R"("llama")", R"("gpt2")"),
       "source_model_type: 'gpt2' is refused"},
      {"TooFewWidths", compressed_with("[6, 7, 8]", "[6, 7]"),
       "junction_widths: must be a list of 3 widths"},
      {"WidthsAreNoList", compressed_with("[6, 7, 8]", "6"),
       "junction_widths: must be a list of 3"},
      {"WidthAboveHiddenSize", compressed_with("[6, 7, 8]", "[6, 9, 8]"),
       "junction_widths: 9 is not a whole number from 1 to 8"},
      {"WidthZero", compressed_with("[6, 7, 8]", "[6, 0, 8]"), "junction_widths: 0 is not"},
      {"TooFewGroups", compressed_with("[6, 7, 8]", R"([6, 6, 8], "junction_groups": [0, 0])"),
       "junction_groups: must be a list of 3 numbers"},
      {"GroupsThatDescend",
       compressed_with("[6, 7, 8]", R"([6, 6, 8], "junction_groups": [1, 1, 0])"),
       "junction_groups: 0 is not a whole number from 1 to "},
      {"GroupOfTwoWidths",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "junction_groups": [0, 0, 1])"),
       "junction_groups: puts the widths 6 and 7 into one group"},
      {"TooFewShortcutRanks",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "shortcut_ranks": [1], "shortcut_factors": 1)"),
       "shortcut_ranks: must be a list of 2 ranks"},
      {"ShortcutRankAboveTheWidth",
       compressed_with("[6, 7, 8]",
                       R"([6, 7, 8], "shortcut_ranks": [7, 0], "shortcut_factors": 1)"),
       "shortcut_ranks: 7 is not a whole number from 0 to 6"},
      {"ShortcutRankWithinAGroup",
       compressed_with("[6, 7, 8]", R"([6, 6, 8], "junction_groups": [0, 0, 1],
                                       "shortcut_ranks": [null, 0], "shortcut_factors": 1)"),
       "shortcut_ranks: is null within a group"},
      {"ShortcutsOfThreeFactors",
       compressed_with("[6, 7, 8]",
                       R"([6, 7, 8], "shortcut_ranks": [1, 0], "shortcut_factors": 3)"),
       "shortcut_factors: 3 is not a whole number from 1 to 2"},
      {"ShortcutsWithoutTheirFactors",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "shortcut_ranks": [1, 0])"),
       "shortcut_factors: is missing"},
      {"TooManyIntermediateSizes",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "intermediate_sizes": [16, 16])"),
       "intermediate_sizes: must be a list of num_hidden_layers, 1, numbers of features"},
      {"IntermediateSizesAreNoList",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "intermediate_sizes": 16)"),
       "intermediate_sizes: must be a list"},
      {"IntermediateSizeAboveTheSources",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "intermediate_sizes": [17])"),
       "intermediate_sizes: 17 is not a whole number from 0 to 16"},
      {"IntermediateSizeZeroWithABias",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "mlp_bias": true, "intermediate_sizes": [0])"),
       "intermediate_sizes: 0 is not"},
      {"IntermediateSizeIsAFraction",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "intermediate_sizes": [8.5])"),
       "intermediate_sizes: 8.5 is not"},
      {"TooFewExpertCounts", glm4_moe_with_experts("[0]"),
       "expert_counts: must be a list of num_hidden_layers, 2, numbers of experts"},
      {"ExpertsOfALayerWithoutAMixture", glm4_moe_with_experts("[8, 8]"),
       "expert_counts: 8 is not a whole number from 0 to 0"},
      {"NoExpertsOfALayer", glm4_moe_with_experts("[0, 0]"),
       "expert_counts: 0 is not a whole number from 6 to 8"},
      {"MoreExpertsThanTheSourceHas", glm4_moe_with_experts("[0, 10]"),
       "expert_counts: 10 is not a whole number from 6 to 8"},
      {"FewerExpertsThanATokenHasInItsGroup", glm4_moe_with_experts("[0, 4]"),
       "expert_counts: 4 is not a whole number from 6 to 8"},
      {"ExpertsThatTheirGroupsDoNotShare", glm4_moe_with_experts("[0, 7]"),
       "expert_counts: 7 is not a multiple of 2, as layer 1 needs"},
      {"ExpertCountsAreFractions", glm4_moe_with_experts("[0, 6.5]"), "expert_counts: 6.5 is not"},
      {"TooManyValueHeadDims",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "value_head_dims": [4, 4])"),
       "value_head_dims: must be a list of num_hidden_layers, 1, numbers of channels"},
      {"ValueHeadDimAboveHeadDim",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "value_head_dims": [5])"),
       "value_head_dims: 5 is not a whole number from 0 to 4"},
      {"ValueHeadDimZeroWithABias",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "attention_bias": true, "value_head_dims": [0])"),
       "value_head_dims: 0 is not"},
      {"StockModelWithValueHeadDims",
       llama_with(R"("mlp_bias": false)", R"("value_head_dims": [128])"),
       "value_head_dims: the value heads of a model of the family llama are as wide as head_dim"},
      {"TiedWithoutAProjection", compressed_with("false", "true"),
       "embedding_projection: is false, but the junction is 6 wide, and the common table "
       "hidden_size, 8"},
      {"TiedWithoutAProjectionOfTheHead",
       with(compressed_with("false", "true"), "[6, 7, 8]",
            R"([6, 7, 5], "embedding_projection": true)"),
       "head_projection: is false, but the junction is 5 wide"},
      {"ProjectionOfUntiedEmbeddings",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "head_projection": true)"),
       "head_projection: is true, but tie_word_embeddings is false"},
      {"NormWeightsOfANarrowModel",
       compressed_with("[6, 7, 8]", R"([6, 7, 8], "norm_weights": true)"),
       "norm_weights: is true, but there are junctions of less width"},
  };
}

class BadConfigs : public testing::TestWithParam<BadConfig> {};

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

INSTANTIATE_TEST_SUITE_P(Job, BadConfigs, testing::ValuesIn(bad_configs()),
                         [](const auto& param) { return param.param.name; });

std::string error_of(const std::filesystem::path& model_dir) {
  try {
    read_model_config(model_dir);
  } catch (const InputError& error) {
    return error.what();
  }
  return "was accepted";
}

TEST(BadConfigFile, MissingDirectoryIsNamed) {
  EXPECT_EQ(error_of("/nonexistent/m"), "/nonexistent/m: no such model directory");
}

TEST(BadConfigFile, MissingFileIsNamed) {
  const TemporaryDirectory dir;
  EXPECT_EQ(error_of(dir.path()), (dir.path() / "config.json").string() + ": no such file");
}

TEST(BadConfigFile, DirectoryInPlaceOfTheFileIsRefused) {
  const TemporaryDirectory dir;
  std::filesystem::create_directory(dir.path() / "config.json");
  EXPECT_THAT(error_of(dir.path()), testing::EndsWith("is not a regular file"));
}

TEST(BadConfigFile, MoreThan16MebibytesAreRefused) {
  const TemporaryDirectory dir;
  const auto path = dir.write("config.json", "{");
  std::filesystem::resize_file(path, (16u << 20) + 1);
  EXPECT_THAT(error_of(dir.path()), testing::HasSubstr("is larger than 16777216 bytes"));
}

}  // namespace
}  // namespace dotresize
