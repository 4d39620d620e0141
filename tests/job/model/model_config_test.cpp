#include <gmock/gmock.h>

#include <cmath>
#include <tuple>

#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

auto all_fields(const ModelConfig& c) {
  return std::tuple(c.family, c.compressed, c.hidden_size, c.layers, c.rotaries, c.vocab_size,
                    c.max_position_embeddings, c.rms_norm_eps, c.tie_word_embeddings,
                    c.files.stated_dtype, c.form.junction_widths);
}

ModelConfig parsed_model(const std::string& text) {
  return parse_model_config(text, "config.json");
}

std::string as_transformers5(const std::string& text, const std::string& rope_parameters) {
  return with(with(text, R"("torch_dtype")", R"("dtype")"), R"("model_type")",
              R"("rope_parameters": )" + rope_parameters + R"(, "model_type")");
}

TEST(ModelConfigKeys, ThetaOfRopeScalingIsReadAsTransformers5Does) {
  const std::string outside = R"("rope_theta": 500000.0,)";
  const std::string inside = with(with(kLlama31Config, outside, ""), R"("rope_type": "llama3")",
                                  R"("rope_type": "llama3", "rope_theta": 500000.0)");
  EXPECT_EQ(parsed_model(inside).rotaries.front(), parsed_model(kLlama31Config).rotaries.front());
}

TEST(ModelConfigKeys, PublishedConfigsHaveNoUnknownKeys) {
  const std::string llama_of_unsloth =
      with(kLlama31Config, "{", R"({"unsloth_fixed": true, "_flash_attn_2_enabled": true,)");
  const std::string gemma2_of_9b = with(kGemma2Config, R"("sliding_window": 4096,)",
                                        R"("sliding_window": 4096, "sliding_window_size": 4096,)");
  const std::string qwen36 = with(
      kQwen35Config, R"("attn_output_gate": true,)",
      R"("attn_output_gate": true, "output_gate_type": "swish", "partial_rotary_factor": 0.25,)");
  const std::string distilled_qwen =
      with(kQwen25Config, R"("use_sliding_window")", R"("use_mrope": false, "use_sliding_window")");
  for (const std::string& text : {std::string(kLlama31Config),
                                  llama_of_unsloth,
                                  std::string(kMistralV03Config),
                                  std::string(kPhi3MiniConfig),
                                  std::string(kPhi4MiniConfig),
                                  std::string(kQwen25Config),
                                  distilled_qwen,
                                  std::string(kQwen3Config),
                                  std::string(kSmolLM3Config),
                                  std::string(kGemma2Config),
                                  gemma2_of_9b,
                                  std::string(kGemma3Config),
                                  std::string(kGemma3Of4BConfig),
                                  std::string(kQwen35Config),
                                  qwen36,
                                  std::string(kOlmo3Config),
                                  std::string(kMinistral3Config),
                                  std::string(kDevstral2Config),
                                  std::string(kHunyuanConfig),
                                  std::string(kMixtralConfig),
                                  std::string(kQwen3MoeConfig),
                                  std::string(kQwen3CoderConfig),
                                  std::string(kQwen2MoeConfig),
                                  std::string(kGlm4MoeConfig),
                                  std::string(kGptOssConfig)}) {
    EXPECT_THAT(parse_config(text, "config.json").warnings, IsEmpty()) << text;
  }
}

TEST(ModelConfig, ZerosInTheYarnOfDevstral2TurnPartsOfItOff) {
  const RotaryConfig rotary = parsed_model(kDevstral2Config).rotaries.front();
  EXPECT_EQ(rotary.query_beta, 0.0);
  // A weight of 0 counts as none.
  EXPECT_DOUBLE_EQ(rotary.attention_factor, 0.1 * std::log(64.0) + 1.0);
}

TEST(ModelConfig, ReadsLlama31AsPublished) {
  const ModelConfig config = llama31();
  EXPECT_EQ(config.family, "llama");
  EXPECT_FALSE(config.compressed);
  EXPECT_EQ(config.hidden_size, 4096);
  EXPECT_EQ(config.layers.front().attention.head_dim, 128);
  EXPECT_EQ(config.layers.front().attention.num_kv_heads, 8);
  EXPECT_EQ(config.vocab_size, 128256);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rotaries.front().type, "llama3");
  EXPECT_EQ(config.rotaries.front().theta, 500000.0);
  EXPECT_EQ(config.rotaries.front().factor, 8.0);
  EXPECT_EQ(config.rotaries.front().original_max_position_embeddings, 8192);
  EXPECT_EQ(config.files.dtypes.main, Dtype::kBFloat16);
  EXPECT_EQ(config.layers.front().attention.sliding_window, std::nullopt);
  EXPECT_THAT(config.form.junction_widths, SizeIs(65));
  EXPECT_THAT(config.form.junction_widths, Each(4096));
}

TEST(ModelConfig, BothDialectsOfLlama31GiveTheSame) {
  std::string text = as_transformers5(kLlama31Config,
                                      R"({"rope_theta": 500000.0, "rope_type": "llama3",
          "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
          "original_max_position_embeddings": 8192})");
  text = with(text, R"("rope_theta": 500000.0,
  "tie)",
              R"("tie)");
  const std::size_t scaling = text.find(R"("rope_scaling")");
  text.erase(scaling, text.find("},", scaling) + 2 - scaling);
  EXPECT_EQ(all_fields(parsed_model(text)), all_fields(llama31()));
}

TEST(ModelConfig, BothDialectsOfMistralGiveTheSame) {
  std::string text =
      as_transformers5(kMistralV03Config, R"({"rope_theta": 1000000.0, "rope_type": "default"})");
  text = with(text, R"("rope_theta": 1000000.0,
  "sliding)",
              R"("sliding)");
  const ModelConfig config = parsed_model(text);
  EXPECT_EQ(all_fields(config), all_fields(parsed_model(kMistralV03Config)));
  EXPECT_EQ(config.rotaries.front().type, "default");
  EXPECT_EQ(config.rotaries.front().theta, 1e6);
}

TEST(ModelConfig, BothDialectsMayStandTogetherWhereTheyAgree) {
  const ModelConfig config = parsed_model(
      as_transformers5(kMistralV03Config, R"({"rope_theta": 1000000.0, "rope_type": "default"})"));
  EXPECT_EQ(config.rotaries.front().theta, 1e6);
}

TEST(ModelConfig, OldNameOfTheRopeTypeIsRead) {
  EXPECT_EQ(parsed_model(with(kLlama31Config, "rope_type", "type")).rotaries.front().type,
            "llama3");
}

TEST(ModelConfig, AbsentKeysHaveTheDefaultsOfTransformers) {
  const std::string sizes = R"("hidden_size": 512, "intermediate_size": 64,
      "num_hidden_layers": 1, "num_attention_heads": 16, "vocab_size": 10})";
  const ModelConfig llama = parsed_model(R"({"model_type": "llama", )" + sizes);
  EXPECT_EQ(llama.layers.front().attention.num_kv_heads, 16);
  EXPECT_EQ(llama.layers.front().attention.head_dim, 32);
  EXPECT_EQ(llama.rms_norm_eps, 1e-6);
  EXPECT_EQ(llama.rotaries.front().theta, 10000.0);
  EXPECT_EQ(llama.rotaries.front().type, "default");
  EXPECT_EQ(llama.max_position_embeddings, 2048);
  EXPECT_FALSE(llama.files.stated_dtype);
  EXPECT_FALSE(llama.tie_word_embeddings);
  const ModelConfig mistral = parsed_model(R"({"model_type": "mistral", )" + sizes);
  EXPECT_EQ(mistral.layers.front().attention.num_kv_heads, 8);
  EXPECT_EQ(mistral.layers.front().attention.sliding_window, 4096);
  const ModelConfig phi3 = parsed_model(R"({"model_type": "phi3", )" + sizes);
  EXPECT_EQ(phi3.layers.front().attention.num_kv_heads, 16);
  EXPECT_EQ(phi3.rms_norm_eps, 1e-5);
  EXPECT_EQ(phi3.layers.front().attention.sliding_window, std::nullopt);
  EXPECT_EQ(phi3.rotaries.front().channels, 32);
  const std::string kv_heads = R"("num_key_value_heads": 4, )" + sizes;
  const ModelConfig qwen2 = parsed_model(R"({"model_type": "qwen2", )" + kv_heads);
  EXPECT_EQ(qwen2.layers.front().attention.head_dim, 32);
  EXPECT_EQ(qwen2.layers.front().attention.sliding_window, std::nullopt);
  EXPECT_EQ(qwen2.max_position_embeddings, 32768);
  EXPECT_EQ(
      parsed_model(R"({"model_type": "qwen3", )" + kv_heads).layers.front().attention.head_dim,
      128);
  const std::string experts = R"("num_local_experts": 4, "num_experts_per_tok": 2, )" + sizes;
  const ModelConfig mixtral = parsed_model(R"({"model_type": "mixtral", )" + experts);
  EXPECT_EQ(mixtral.layers.front().attention.num_kv_heads, 8);
  EXPECT_EQ(mixtral.rms_norm_eps, 1e-5);
  EXPECT_EQ(mixtral.rotaries.front().theta, 1e6);
  EXPECT_EQ(mixtral.layers.front().attention.sliding_window, std::nullopt);
  const ModelConfig qwen3_moe =
      parsed_model(R"({"model_type": "qwen3_moe", "moe_intermediate_size": 8, )" + experts);
  EXPECT_EQ(qwen3_moe.layers.front().attention.num_kv_heads, 4);
  EXPECT_EQ(qwen3_moe.rotaries.front().theta, 1e4);
  EXPECT_FALSE(qwen3_moe.mlp(1).mixture->normed_weights);
  const std::string of_one = R"("moe_intermediate_size": 8, )" + experts;
  const ModelConfig qwen2_moe = parsed_model(
      R"({"model_type": "qwen2_moe", "shared_expert_intermediate_size": 12, )" + of_one);
  EXPECT_EQ(qwen2_moe.layers.front().attention.num_kv_heads, 16);
  EXPECT_TRUE(qwen2_moe.layers.front().attention.bias);
  EXPECT_FALSE(qwen2_moe.layers.front().attention.output_bias);
  EXPECT_FALSE(qwen2_moe.mlp(1).mixture->normed_weights);
  EXPECT_EQ(shared_features(qwen2_moe.mlp(1)), 12);
  const ModelConfig glm4_moe =
      parsed_model(with(R"({"model_type": "glm4_moe", )" + of_one, R"("num_hidden_layers": 1)",
                        R"("num_hidden_layers": 2)"));
  EXPECT_EQ(glm4_moe.layers.front().attention.num_kv_heads, 8);
  EXPECT_EQ(glm4_moe.rotaries.front().channels, 16);  // half of a head
  EXPECT_EQ(glm4_moe.rms_norm_eps, 1e-5);
  EXPECT_FALSE(glm4_moe.layers.front().attention.bias);
  EXPECT_FALSE(glm4_moe.layers.front().attention.head_norms);
  EXPECT_FALSE(glm4_moe.mlp(1).mixture);
  const MixtureSpec& mixture = *glm4_moe.mlp(3).mixture;
  EXPECT_TRUE(mixture.normed_weights && mixture.choice_bias);
  EXPECT_EQ(mixture.scores, RouterScores::kSigmoid);
  EXPECT_EQ(mixture.weight_scale, 1.0);
  EXPECT_EQ(mixture.groups * mixture.groups_per_token, 1);
  EXPECT_EQ(shared_features(glm4_moe.mlp(3)), 8);
}

TEST(ModelConfig, SizesThatATextPartDoesNotStateAreThoseOfTransformers) {
  // As published: llava-1.5-7b-hf and pixtral-12b.
  const auto wrapper = [](const std::string& text) {
    return parsed_model(R"({"model_type": "llava", "text_config": {)" + text +
                        R"(}, "vision_config": {}})");
  };
  const ModelConfig llava = wrapper(R"("max_position_embeddings": 4096, "model_type": "llama",
      "rms_norm_eps": 1e-05, "torch_dtype": "float16", "vocab_size": 32064)");
  EXPECT_EQ(llava.hidden_size, 4096);
  EXPECT_THAT(llava.layers, SizeIs(32));
  EXPECT_EQ(llava.layers.front().mlp.intermediate_size, 11008);
  EXPECT_EQ(llava.layers.front().attention.num_kv_heads, 32);
  const ModelConfig pixtral = wrapper(R"("head_dim": 128, "hidden_size": 5120,
      "intermediate_size": 14336, "model_type": "mistral", "num_hidden_layers": 40,
      "num_key_value_heads": 8, "sliding_window": null, "vocab_size": 131072)");
  EXPECT_EQ(pixtral.layers.front().attention.num_heads, 32);
  const ModelConfig mistral = wrapper(R"("model_type": "mistral")");
  EXPECT_EQ(mistral.hidden_size, 4096);
  EXPECT_THAT(mistral.layers, SizeIs(32));
  EXPECT_EQ(mistral.layers.front().mlp.intermediate_size, 14336);
  EXPECT_EQ(mistral.vocab_size, 32000);
}

TEST(ModelConfig, ThetaOfAMinistral3WhoseRotarySettingsHaveNoneIsThatOfTransformers) {
  const ModelConfig config = parsed_model(
      R"({"model_type": "ministral3", "hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 100, "head_dim": 16,
          "rope_parameters": {"rope_type": "yarn", "factor": 8.0, "llama_4_scaling_beta": 0.1}})");
  EXPECT_EQ(config.rotaries.front().theta, 1e4);
}

TEST(ModelConfig, NullCountsAsAbsent) {
  const ModelConfig config = parsed_model(with(kMistralV03Config, R"("num_key_value_heads": 8)",
                                               R"("num_key_value_heads": null, "head_dim": null)"));
  EXPECT_EQ(config.layers.front().attention.num_kv_heads, 32);
  EXPECT_EQ(config.layers.front().attention.head_dim, 128);
  EXPECT_EQ(config.layers.front().attention.sliding_window, std::nullopt);
}

TEST(ModelConfig, NumbersOfPythonInUnusedKeysAndAnEmptyQuantizationAreNothing) {
  const std::string plain = kLlama31Config;
  const std::string more = with(plain, "{", R"({"quantization_config": {}, "a": Infinity,
      "b": [NaN, -Infinity, {"c": NaN}], "d": "say \"NaN\", Infinity", )");
  EXPECT_EQ(all_fields(parsed_model(more)), all_fields(llama31()));
}

TEST(ModelConfig, ExplicitHeadDimNeedNotDivideTheHiddenSize) {
  // Dimensions of Mistral-NeMo: 32 heads of 128 on a stream of 5120.
  const ModelConfig config = parsed_model(
      with(kMistralV03Config, R"("hidden_size": 4096)", R"("hidden_size": 5120, "head_dim": 128)"));
  EXPECT_EQ(config.layers.front().attention.head_dim, 128);
}

TEST(ModelConfig, AttentionBiasOfLlamaIsThatOfTheOutputToo) {
  const ModelConfig config =
      parsed_model(with(kLlama31Config, R"("attention_bias": false)", R"("attention_bias": true)"));
  EXPECT_TRUE(config.layers.front().attention.bias);
  EXPECT_TRUE(config.layers.front().attention.output_bias);
  EXPECT_FALSE(config.layers.front().mlp.bias);
}

TEST(ModelConfig, Qwen2HasBiasesOnQueryKeyAndValueOnly) {
  const ModelConfig config = parsed_model(kQwen25Config);
  EXPECT_TRUE(config.layers.front().attention.bias);
  EXPECT_FALSE(config.layers.front().attention.output_bias);
  EXPECT_FALSE(config.layers.front().mlp.bias);
  EXPECT_TRUE(config.tie_word_embeddings);
}

TEST(ModelConfig, Qwen3NormsItsHeadsAndHasTheBiasesThatItNames) {
  const ModelConfig config = parsed_model(kQwen3Config);
  EXPECT_TRUE(config.layers.front().attention.head_norms);
  EXPECT_EQ(config.layers.front().attention.head_dim, 128);
  EXPECT_FALSE(config.layers.front().attention.bias);
  const ModelConfig biased =
      parsed_model(with(kQwen3Config, R"("attention_bias": false)", R"("attention_bias": true)"));
  EXPECT_TRUE(biased.layers.front().attention.bias);
  EXPECT_TRUE(biased.layers.front().attention.output_bias);
}

TEST(ModelConfig, WindowOfQwenIsOnTheLayersFromMaxWindowLayersOn) {
  const auto with_layers = [](const std::string& text, const std::string& layers) {
    return with(text, R"("max_window_layers": 21)", layers);
  };
  EXPECT_EQ(parsed_model(with_layers(kQwen25Config, R"("max_window_layers": 0)"))
                .layers.front()
                .attention.sliding_window,
            std::nullopt);
  const std::string used =
      with(kQwen25Config, R"("use_sliding_window": false)", R"("use_sliding_window": true)");
  const auto window = [&](const std::string& layers) {
    const ModelConfig config = parsed_model(with_layers(used, layers));
    return std::pair(config.layers.front().attention.sliding_window,
                     config.layers.back().attention.sliding_window);
  };
  const std::optional<int64_t> none;
  const std::optional<int64_t> window_size = 32768;
  EXPECT_EQ(window(R"("max_window_layers": 0)"), std::pair(window_size, window_size));
  EXPECT_EQ(window(R"("max_window_layers": 21)"), std::pair(none, window_size));
  EXPECT_EQ(window(R"("max_window_layers": 24)"), std::pair(none, none));
  EXPECT_EQ(window(R"("max_window_layers": null)"), std::pair(none, none));
}

TEST(ModelConfig, Phi3HasFusedMatricesAWindowAndPerhapsPartialRotary) {
  const ModelConfig config = parsed_model(kPhi3MiniConfig);
  EXPECT_TRUE(config.layers.front().attention.fused);
  EXPECT_TRUE(config.layers.front().mlp.fused);
  EXPECT_EQ(config.layers.front().attention.sliding_window, 2047);
  EXPECT_EQ(config.rotaries.front().channels, 96);
  const std::string version4 = R"("partial_rotary_factor": 0.75,)";
  const std::string version5 =
      R"("rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.75},)";
  for (const std::string& settings : {version4, version5, version4 + version5}) {
    const ModelConfig partial =
        parsed_model(with(kPhi3MiniConfig, R"("rope_scaling": null,)", settings));
    EXPECT_EQ(partial.rotaries.front().channels, 72) << settings;
  }
}

TEST(ModelConfig, Gemma3HasTwoKindsOfLayersInEitherDialect) {
  const ModelConfig config = parsed_model(kGemma3Config);
  EXPECT_THAT(parse_config(kGemma3Config, "config.json").warnings, IsEmpty());
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.norm_offset, 1.0);
  EXPECT_DOUBLE_EQ(config.embedding_scale, std::sqrt(640.0));
  ASSERT_THAT(config.rotaries, SizeIs(2));
  EXPECT_EQ(config.rotaries[0].theta, 1e6);
  EXPECT_EQ(config.rotaries[1].theta, 1e4);
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    const LayerSpec& spec = config.layers[layer];
    const bool sliding = layer % 6 != 5;
    EXPECT_EQ(spec.attention.sliding_window.value_or(0), sliding ? 512 : 0) << layer;
    EXPECT_EQ(spec.attention.rotary, sliding ? 1 : 0) << layer;
    EXPECT_EQ(spec.norms.behind_mlp, "post_feedforward_layernorm");
    EXPECT_TRUE(spec.attention.head_norms.has_value());
    EXPECT_EQ(spec.attention.scale, 1.0 / 16);
    EXPECT_EQ(spec.mlp.activation, Activation::kGeluTanh);
  }
  const std::string version5 =
      with(with(kGemma3Config, R"("rope_theta": 1000000.0)", R"("layer_types": null)"),
           R"("rope_local_base_freq": 10000.0)",
           R"("rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0},
              "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}})");
  const ModelConfig other = parsed_model(version5);
  EXPECT_EQ(other.rotaries[0].theta, 1e6);
  EXPECT_EQ(other.rotaries[0].factor, 8.0);
  EXPECT_EQ(other.rotaries[1].theta, 5000.0);
  EXPECT_EQ(other.rotaries[1].type, "default");
}

TEST(ModelConfig, EveryFourthLayerOfSmolLM3HasNoRotaryEmbedding) {
  const auto without = [](const ModelConfig& config) {
    std::vector<int64_t> layers;
    for (int64_t layer = 0; layer < config.num_layers(); ++layer) {
      if (!config.attention(2 * layer).rotary) layers.push_back(layer);
    }
    return layers;
  };
  const ModelConfig config = parsed_model(kSmolLM3Config);
  EXPECT_TRUE(config.tie_word_embeddings) << "the family's default";
  EXPECT_EQ(config.rotaries.front().theta, 5e6);
  EXPECT_THAT(without(config), ElementsAre(3, 7, 11, 15, 19, 23, 27, 31, 35));
  nlohmann::json keys = nlohmann::json::parse(kSmolLM3Config);
  keys.erase("no_rope_layers");
  keys["num_hidden_layers"] = 6;
  keys["no_rope_layer_interval"] = 2;
  EXPECT_THAT(without(parsed_model(keys.dump())), ElementsAre(1, 3, 5));
  keys["use_sliding_window"] = true;
  keys["sliding_window"] = 100;
  const ModelConfig windowed = parsed_model(keys.dump());
  for (const LayerSpec& layer : windowed.layers) {
    EXPECT_EQ(layer.attention.sliding_window.has_value(), !layer.attention.rotary);
  }
  EXPECT_THAT(parse_config(kSmolLM3Config, "config.json").warnings, IsEmpty());
}

std::string ones(int count) {
  std::string list = "[1.0";
  for (int i = 1; i < count; ++i) list += ", 1.0";
  return list + "]";
}

/// Returns the rotary settings of a Phi-3-mini with a context 32 times its training length.
RotaryConfig phi3_rotary(const std::string& settings) {
  const std::string longer = with(kPhi3MiniConfig, R"("max_position_embeddings": 4096,
  "model)",
                                  R"("max_position_embeddings": 131072,
  "model)");
  return parsed_model(with(with(longer, R"("rope_theta": 10000.0,)", ""),
                           R"("rope_scaling": null,)", settings))
      .rotaries.front();
}

// The spellings of Phi-4-mini and Phi-3-mini-128k, and that of transformers 5.
TEST(ModelConfig, LongropeOfPhi3IsTheSameInEitherDialectAndByItsOldNames) {
  const std::string lists = R"("short_factor": )" + ones(48) + R"(, "long_factor": )" + ones(48);
  const RotaryConfig rotary =
      phi3_rotary(R"("rope_scaling": {"type": "longrope", )" + lists + "},");
  EXPECT_EQ(rotary.type, "longrope");
  EXPECT_EQ(rotary.original_max_position_embeddings, 4096);
  EXPECT_THAT(rotary.long_factor, SizeIs(48));
  EXPECT_DOUBLE_EQ(rotary.factor, 32);
  EXPECT_NEAR(rotary.attention_factor, 1.1902380714238083, 1e-15);  // sqrt(1 + ln 32 / ln 4096)
  for (const char* name : {"su", "yarn"}) {
    EXPECT_EQ(
        phi3_rotary(R"("rope_scaling": {"type": ")" + std::string(name) + "\", " + lists + "},"),
        rotary);
  }
  EXPECT_EQ(phi3_rotary(R"("rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0,
      "original_max_position_embeddings": 4096, )" +
                        lists + "},"),
            rotary);
}

TEST(ModelConfig, YarnTakesTheValuesOfTransformersForAbsentKeys) {
  const RotaryConfig rotary =
      parsed_model(with(kQwen25Config, R"("rms_norm_eps")",
                        R"("rope_scaling": {"type": "yarn", "factor": 4.0}, "rms_norm_eps")"))
          .rotaries.front();
  EXPECT_EQ(rotary.original_max_position_embeddings, 32768);
  EXPECT_NEAR(rotary.attention_factor, 1.138629436111989, 1e-15);  // 0.1 ln 4 + 1
  EXPECT_EQ(rotary.beta_fast, 32.0);
  EXPECT_EQ(rotary.beta_slow, 1.0);
  EXPECT_TRUE(rotary.truncate);
}

TEST(ModelConfig, ReadsACompressedModel) {
  const ModelConfig config =
      parsed_model(R"({"model_type": "dotresize", "source_model_type": "mistral",
      "architectures": ["DotResizeForCausalLM"], "junction_widths": [6, 7, 8],
      "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
      "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 10,
      "sliding_window": 16})");
  EXPECT_TRUE(config.compressed);
  EXPECT_EQ(config.family, "mistral");
  EXPECT_EQ(config.hidden_size, 8);
  EXPECT_EQ(config.layers.front().attention.sliding_window, 16);
  EXPECT_THAT(config.form.junction_widths, ElementsAre(6, 7, 8));
}

TEST(ModelConfig, ReadsTheExample) {
  const ModelConfig config = read_model_config(DOTRESIZE_SOURCE_DIR "/examples/docs-llama");
  EXPECT_EQ(config.hidden_size, 256);
  EXPECT_EQ(config.num_junctions(), 13);
  EXPECT_EQ(config.files.dtypes.main, Dtype::kBFloat16);
}

}  // namespace
}  // namespace dotresize
