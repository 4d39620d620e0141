#include "job/model/output_config.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/errors.h"
#include "job/model/config_keys.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "job/plan/net_size.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

using nlohmann::json;

std::string output_of(const std::string& source_text, Dtype dtype = Dtype::kBFloat16) {
  const ModelConfig source = parse_model_config(source_text, "config.json");
  ResolvedJob job;
  job.output.dtypes.main = dtype;
  const JunctionWidths widths = uniform_widths(source, /*head_sliced=*/false, 640);
  return output_config_json(source_text, output_model_config(source, job, widths));
}

std::string stock_output_of(const std::string& source_text) {
  const ModelConfig source = parse_model_config(source_text, "config.json");
  ResolvedJob job;
  job.maps.shared = true;
  const JunctionWidths widths = uniform_widths(source, /*head_sliced=*/true, 384);
  return output_config_json(source_text, output_model_config(source, job, widths));
}

TEST(OutputConfig, LeavesOutNumbersThatJsonDoesNotHave) {
  const json found = json::parse(output_of(
      with(kLlama31Config, R"("attention_dropout": 0.0)", R"("attention_dropout": Infinity)")));
  EXPECT_FALSE(found.contains("attention_dropout"));
}

TEST(OutputConfig, IsReadBackAsTheCompressedModel) {
  for (const char* text : {kLlama31Config, kMistralV03Config, kPhi3MiniConfig, kQwen25Config,
                           kQwen3Config, kSmolLM3Config, kGemma2Config, kQwen35Config, kOlmo3Config,
                           kMinistral3Config, kMixtralConfig, kQwen3MoeConfig}) {
    const ModelConfig source = parse_model_config(text, "config.json");
    const ModelConfig output = parse_model_config(output_of(text), "config.json");
    EXPECT_TRUE(output.compressed);
    EXPECT_EQ(output.family, source.family);
    EXPECT_EQ(output.hidden_size, source.hidden_size);
    EXPECT_EQ(output.rms_norm_eps, source.rms_norm_eps);
    EXPECT_EQ(output.layers, source.layers);
    EXPECT_EQ(output.rotaries, source.rotaries);
    EXPECT_EQ(output.form.junction_widths.front(), 640);
    EXPECT_EQ(output.form.junction_widths.back(), source.hidden_size);
    EXPECT_EQ(output.files.stated_dtype, Dtype::kBFloat16);
  }
}

TEST(OutputConfig, StatesValuesThatTheFamilyHasOtherDefaultsFor) {
  const std::string small = R"("hidden_size": 768, "intermediate_size": 96, "head_dim": 96,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 9)";
  const std::string whole_heads =
      R"("rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0})";
  const std::vector<std::string> texts = {
      with(kQwen35Config, R"("partial_rotary_factor": 0.25)", R"("partial_rotary_factor": 1.0)"),
      with(with(kGemma2Config, R"("attn_logit_softcapping": 50.0)",
                R"("attn_logit_softcapping": null)"),
           R"("final_logit_softcapping": 30.0)", R"("final_logit_softcapping": null)"),
      R"({"model_type": "glm4", "attention_bias": false, )" + small + ", " + whole_heads + "}",
      R"({"model_type": "glm4_moe", "n_routed_experts": 4, "num_experts_per_tok": 2,
          "moe_intermediate_size": 8, "n_shared_experts": 2, )" +
          small + ", " + whole_heads + "}",
      R"({"model_type": "exaone4", "sliding_window": null, )" + small + "}",
      R"({"model_type": "olmo3", "sliding_window": null,
          "layer_types": ["full_attention", "full_attention"], )" +
          small + "}"};
  for (const std::string& text : texts) {
    const ModelConfig source = parse_model_config(text, "config.json");
    for (const std::string& written : {output_of(text), stock_output_of(text)}) {
      const ModelConfig output = parse_model_config(written, "config.json");
      EXPECT_EQ(output.layers, source.layers) << written;
      EXPECT_EQ(output.rotaries, source.rotaries) << written;
      EXPECT_EQ(output.logit_cap, source.logit_cap) << written;
    }
  }
}

TEST(OutputConfig, SaysHowWideMlpsAndExpertsAre) {
  for (const char* text : {kLlama31Config, kMixtralConfig, kQwen3MoeConfig}) {
    const ModelConfig source = parse_model_config(text, "config.json");
    ResolvedJob job;
    job.maps.shared = true;
    const bool mixture = source.is_mixture(1);
    job.mlp = MlpTarget{{}, mixture ? 0 : 512, mixture ? 256 : 0};
    const JunctionWidths widths = uniform_widths(source, /*head_sliced=*/true, 384);
    const ModelConfig output = parse_model_config(
        output_config_json(text, output_model_config(source, job, widths)), "config.json");
    EXPECT_EQ(mlp_width(output, 1), mixture ? 256 : 512);
  }
}

TEST(OutputConfig, SaysHowWideASharedExpertIs) {
  for (const char* text : {kQwen2MoeConfig, kGlm4MoeConfig}) {
    const ModelConfig source = parse_model_config(text, "config.json");
    ModelConfig cut = source;
    for (LayerSpec& layer : cut.layers) layer.mlp.intermediate_size /= 2;
    const int64_t last = source.num_sublayers() - 1;
    const json keys = json::parse(output_config_json(text, cut));
    const ModelConfig stock = parse_model_config(keys.dump(), "config.json");
    EXPECT_EQ(features_of_mlps(stock, last), features_of_mlps(cut, last));
    cut.form.sizes_by_layer = cut.form.norm_weights = cut.compressed = true;
    const ModelConfig custom = parse_model_config(output_config_json(text, cut), "config.json");
    EXPECT_EQ(features_of_mlps(custom, last), features_of_mlps(cut, last));
    EXPECT_EQ(keys.value("num_nextn_predict_layers", 0), 0);
    EXPECT_EQ(stock.rotaries, source.rotaries);
  }
  const std::string whole = with(kGlm4MoeConfig, R"("partial_rotary_factor": 0.5,)",
                                 R"("rope_parameters": {"partial_rotary_factor": 1.0,
      "rope_type": "default", "rope_theta": 1000000},)");
  const ModelConfig source = parse_model_config(whole, "config.json");
  const json keys = json::parse(output_config_json(whole, source));
  EXPECT_EQ(keys["partial_rotary_factor"], 1.0);
  EXPECT_EQ(keys["rope_parameters"]["partial_rotary_factor"], 1.0);
}

TEST(OutputConfig, SaysHowWideTheMlpsOfEachLayerAre) {
  for (const char* text : {kLlama31Config, kPhi3MiniConfig, kMixtralConfig, kQwen3MoeConfig}) {
    const ModelConfig source = parse_model_config(text, "config.json");
    ModelConfig cut = source;
    cut.form.sizes_by_layer = true;
    for (LayerSpec& layer : cut.layers) layer.mlp.intermediate_size = 256;
    cut.layers[1].mlp.intermediate_size = 640;
    const JunctionWidths widths = uniform_widths(source, /*head_sliced=*/false, 384);
    const ModelConfig output = parse_model_config(
        output_config_json(text, output_model_config(cut, ResolvedJob(), widths)), "config.json");
    EXPECT_EQ(mlp_width(output, 1), 256);
    EXPECT_EQ(mlp_width(output, 2), 0);
    EXPECT_EQ(mlp_width(output, 3), 640);
    EXPECT_EQ(json::parse(output_config_json(text, output)).at("intermediate_size"),
              json::parse(text).at("intermediate_size"));
    EXPECT_FALSE(json::parse(output_of(text)).contains("intermediate_sizes"));
  }
}

TEST(OutputConfig, SaysHowWideTheValueHeadsOfEachLayerAre) {
  const ModelConfig source = parse_model_config(kQwen3Config, "config.json");
  ModelConfig cut = source;
  cut.form.sizes_by_layer = true;
  cut.layers[1].attention.value_head_dim = 37;
  cut.layers[2].attention.value_head_dim = 0;
  const JunctionWidths widths = uniform_widths(source, /*head_sliced=*/false, 384);
  const ModelConfig written = output_model_config(cut, ResolvedJob(), widths);
  const ModelConfig output =
      parse_model_config(output_config_json(kQwen3Config, written), "config.json");
  EXPECT_EQ(inner_width(output, 0), 128);
  EXPECT_EQ(inner_width(output, 2), 37);
  EXPECT_TRUE(is_skipped(output, 4));
  EXPECT_EQ(output.layers.front().attention.head_dim, 128);
  EXPECT_FALSE(json::parse(output_of(kQwen3Config)).contains("value_head_dims"));
}

TEST(OutputConfig, OfAStockModelIsThatOfANarrowerModelOfTheFamily) {
  for (const char* text : {kLlama31Config, kMistralV03Config, kPhi3MiniConfig, kQwen25Config,
                           kQwen3Config, kSmolLM3Config, kGemma2Config, kOlmo3Config,
                           kMinistral3Config, kMixtralConfig, kQwen3MoeConfig}) {
    const ModelConfig source = parse_model_config(text, "config.json");
    const ModelConfig output = parse_model_config(stock_output_of(text), "config.json");
    EXPECT_FALSE(output.compressed);
    EXPECT_EQ(output.family, source.family);
    EXPECT_EQ(output.hidden_size, 384);
    EXPECT_EQ(output.layers.front().attention.head_dim, source.layers.front().attention.head_dim);
    EXPECT_EQ(output.rotaries.front(), source.rotaries.front());
    EXPECT_DOUBLE_EQ(output.rms_norm_eps,
                     source.rms_norm_eps * static_cast<double>(source.hidden_size) / 384);
    EXPECT_EQ(output.tie_word_embeddings, source.tie_word_embeddings);
    const json keys = json::parse(stock_output_of(text));
    EXPECT_EQ(keys["architectures"], json::parse(text)["architectures"]);
    EXPECT_FALSE(keys.contains("junction_widths"));
  }
}

TEST(OutputConfig, OfAStockModelOfAnotherFamilySaysWhatThatHasOtherDefaultsFor) {
  const std::string text = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
      "num_attention_heads": 8, "vocab_size": 100})";
  const ModelConfig source = parse_model_config(text, "config.json");
  ResolvedJob job;
  job.maps.shared = true;
  job.output.stock_family = "mistral";
  const JunctionWidths widths = uniform_widths(source, /*head_sliced=*/true, 40);
  const std::string written = output_config_json(text, output_model_config(source, job, widths));
  const ModelConfig output = parse_model_config(written, "config.json");
  EXPECT_EQ(output.family, "mistral");
  EXPECT_EQ(output.hidden_size, 40);
  EXPECT_EQ(output.layers.front().attention.head_dim, 8);
  EXPECT_EQ(output.layers.front().attention.num_kv_heads, 8);
  EXPECT_EQ(output.max_position_embeddings, source.max_position_embeddings);
  EXPECT_EQ(output.layers.front().attention.sliding_window, std::nullopt);
  EXPECT_EQ(output.rotaries.front(), source.rotaries.front());
  EXPECT_EQ(json::parse(written)["architectures"], json({"MistralForCausalLM"}));
}

TEST(OutputConfig, OfAStockModelNamesNoCode) {
  const std::string source = with(kLlama31Config, R"("use_cache": true)",
                                  R"("use_cache": true, "auto_map": {"AutoConfig": "x.Y"})");
  EXPECT_FALSE(json::parse(stock_output_of(source)).contains("auto_map"));
}

TEST(OutputConfig, SpeaksBothDialects) {
  const json output = json::parse(output_of(kLlama31Config, Dtype::kFloat16));
  EXPECT_EQ(output["dtype"], "float16");
  EXPECT_EQ(output["torch_dtype"], "float16");
  EXPECT_EQ(output["rope_theta"], 500000.0);
  EXPECT_EQ(output["rope_scaling"]["rope_type"], "llama3");
  EXPECT_EQ(output["rope_parameters"]["rope_theta"], 500000.0);
  EXPECT_EQ(output["rope_parameters"]["factor"], 8.0);
  EXPECT_TRUE(json::parse(output_of(kMistralV03Config))["rope_scaling"].is_null());
}

TEST(OutputConfig, WritesPartialRotaryInBothDialectsWhicheverTheSourceSpeaks) {
  for (const char* settings :
       {R"("partial_rotary_factor": 0.75,)",
        R"("rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.75},)"}) {
    const json output =
        json::parse(output_of(with(kPhi3MiniConfig, R"("rope_scaling": null,)", settings)));
    EXPECT_EQ(output["partial_rotary_factor"], 0.75);
    EXPECT_EQ(output["rope_parameters"]["partial_rotary_factor"], 0.75);
    EXPECT_TRUE(output["rope_scaling"].is_null());
  }
}

TEST(OutputConfig, NamesTheNumberOfExpertsForBothVersionsOfTransformers) {
  const std::string version5 =
      with(kQwen3MoeConfig, R"("num_experts": 128)", R"("num_local_experts": 128)");
  for (const std::string& text : {std::string(kQwen3MoeConfig), version5}) {
    const json output = json::parse(output_of(text));
    EXPECT_EQ(output["num_experts"], 128);
    EXPECT_EQ(output["num_local_experts"], 128);
  }
}

TEST(OutputConfig, HasNoLayersThatPredictFurtherTokens) {
  const json keys = json::parse(
      output_config_json(kQwen35Config, parse_model_config(kQwen35Config, "config.json")));
  EXPECT_EQ(keys["mtp_num_hidden_layers"], 0);
}

TEST(OutputConfig, KeepsWhatOnlyOtherProgramsRead) {
  const json devstral = json::parse(
      output_config_json(kDevstral2Config, parse_model_config(kDevstral2Config, "config.json")));
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    EXPECT_EQ(devstral[key]["llama_4_scaling_beta"], 0.0) << key;  // transformers needs it
    EXPECT_EQ(devstral[key]["mscale"], 1.0) << key;                // llama.cpp's converter
    EXPECT_EQ(devstral[key]["mscale_all_dim"], 0.0) << key;
  }
  const json hunyuan = json::parse(
      output_config_json(kHunyuanConfig, parse_model_config(kHunyuanConfig, "config.json")));
  EXPECT_EQ(hunyuan["use_qk_norm"], true);  // vLLM leaves the norms out without it
}

TEST(OutputConfig, AStockPhi3HasTheLongropeThatTransformers4Accepts) {
  const auto scaling_of = [](const std::string& text) {
    const ModelConfig source = parse_model_config(text, "config.json");
    const std::string output = output_config_json(text, source);
    EXPECT_EQ(parse_model_config(output, "config.json").rotaries, source.rotaries);
    return json::parse(output)["rope_scaling"];
  };
  EXPECT_EQ(scaling_of(kPhi4MiniConfig), json::parse(kPhi4MiniConfig)["rope_scaling"]);
  // It does not accept this one, but does not compute something else either.
  const json stated = scaling_of(
      with(kPhi4MiniConfig, R"("type": "longrope")", R"("type": "longrope", "factor": 2.0)"));
  EXPECT_EQ(stated["factor"], 2.0);
}

TEST(OutputConfig, DoesNotNameTheCodeThatAReleaseHas) {
  const ModelConfig source = parse_model_config(kPhi4MiniConfig, "config.json");
  EXPECT_FALSE(json::parse(output_config_json(kPhi4MiniConfig, source)).contains("auto_map"));
}

TEST(OutputConfig, StatesEveryRotarySettingInBothDialects) {
  std::string list = "[1.5";
  for (int i = 1; i < 64; ++i) list += ", 1.5";
  list += "]";
  const std::vector<std::string> settings = {
      R"("type": "linear", "factor": 2.0)",
      R"("type": "dynamic", "factor": 2.0)",
      R"("type": "yarn", "factor": 2.0, "beta_fast": 16, "beta_slow": 2, "truncate": false,
         "original_max_position_embeddings": 100, "mscale": 0.5, "mscale_all_dim": 0.25)",
      R"("type": "longrope", "original_max_position_embeddings": 100, "short_factor": )" + list +
          R"(, "long_factor": )" + list,
  };
  for (const std::string& setting : settings) {
    const std::string text =
        with(kQwen3Config, R"("rope_scaling": null)", R"("rope_scaling": {)" + setting + "}");
    const RotaryConfig rotary = parse_model_config(text, "config.json").rotaries.front();
    for (const std::string& output : {output_of(text), stock_output_of(text)}) {
      json either = json::parse(output);
      EXPECT_EQ(parse_model_config(either.dump(), "config.json").rotaries.front(), rotary)
          << setting;
      either.erase("rope_parameters");
      EXPECT_EQ(parse_model_config(either.dump(), "config.json").rotaries.front(), rotary)
          << setting;
      either = json::parse(output);
      either.erase("rope_scaling");
      either.erase("rope_theta");
      EXPECT_EQ(parse_model_config(either.dump(), "config.json").rotaries.front(), rotary)
          << setting;
      const bool is_beside = either.contains("original_max_position_embeddings");
      EXPECT_EQ(is_beside, rotary.type == "longrope");  // transformers 4 reads it there
    }
  }
}

TEST(OutputConfig, KeepsANullPaddingToken) {
  const std::string text =
      with(kPhi3MiniConfig, R"("pad_token_id": 32000)", R"("pad_token_id": null)");
  for (const std::string& output : {output_of(text), stock_output_of(text)}) {
    EXPECT_TRUE(json::parse(output).at("pad_token_id").is_null());
  }
}

TEST(OutputConfig, LeavesOutWhatTransformersWouldLoad) {
  const std::string text = with(kLlama31Config, R"("use_cache": true)",
                                R"("use_cache": true, "auto_map": {"AutoModel": "a--b.C"},
                                   "custom_pipelines": {"x": {"impl": "evil.Pipeline"}},
                                   "attn_implementation": "org/kernel", "bos_token_id2": "x")");
  for (const std::string& output : {output_of(text), stock_output_of(text)}) {
    const json config = json::parse(output);
    EXPECT_FALSE(config.contains("custom_pipelines"));
    EXPECT_FALSE(config.contains("attn_implementation"));
    EXPECT_FALSE(config.contains("bos_token_id2"));
    EXPECT_TRUE(config.contains("use_cache"));
  }
  EXPECT_FALSE(json::parse(stock_output_of(text)).contains("auto_map"));
  const json tokenizer = {{"auto_map", {"a", "b"}},
                          {"custom", "org/code"},
                          {"processor_class", "Gemma3Processor"},
                          {"image_token", "<i>"},
                          {"chat_template", "{{ x }}"},
                          {"model_max_length", 1e30}};
  json kept = {{"image_token", "<i>"}, {"chat_template", "{{ x }}"}, {"model_max_length", 1e30}};
  EXPECT_EQ(kept_tokenizer_config(tokenizer, /*processor=*/false), kept);
  kept["processor_class"] = "Gemma3Processor";
  EXPECT_EQ(kept_tokenizer_config(tokenizer, /*processor=*/true), kept);
  EXPECT_EQ(kept_generation_config({{"custom_generate", "org/code"}, {"eos_token_id", {1, 2}}}),
            json({{"eos_token_id", {1, 2}}}));
}

TEST(OutputConfig, OfAWrapperHasAllThatIsNotOfItsTextPart) {
  const ModelConfig source = parse_model_config(kGemma3Of4BConfig, "config.json");
  EXPECT_EQ(source.family, "gemma3_text");
  EXPECT_EQ(source.vocab_size, 262208);
  EXPECT_EQ(source.layers.front().attention.num_heads, 8);
  EXPECT_EQ(source.layers.front().attention.num_kv_heads, 4);
  EXPECT_EQ(source.files.stated_dtype, Dtype::kBFloat16);
  EXPECT_TRUE(source.tie_word_embeddings);
  ModelConfig output = source;
  output.files.dtypes.main = Dtype::kFloat16;
  for (LayerSpec& layer : output.layers) layer.mlp.intermediate_size = 7680;
  const std::string text = output_config_json(
      with(kGemma3Of4BConfig, R"("patch_size": 14)",
           R"("patch_size": 14, "auto_map": {"AutoModel": "x"}, "quantization_config": {})"),
      output);
  json written = json::parse(text);
  json expected = json::parse(kGemma3Of4BConfig);
  const json part = written["text_config"];
  EXPECT_EQ(part["model_type"], "gemma3_text");
  EXPECT_EQ(part["intermediate_size"], 7680);
  EXPECT_EQ(part["dtype"], "float16");
  for (const char* key : {"text_config", "torch_dtype", "dtype", "tie_word_embeddings"}) {
    written.erase(key);
    expected.erase(key);
  }
  EXPECT_EQ(written, expected);
  const ModelConfig again = parse_model_config(text, "config.json");
  EXPECT_EQ(again.layers, output.layers);
  EXPECT_EQ(again.rotaries, output.rotaries);
  EXPECT_EQ(again.files.wrapper->architecture, "Gemma3ForConditionalGeneration");
}

TEST(OutputConfig, TiedEmbeddingsStayTied) {
  const std::string text =
      with(kLlama31Config, R"("tie_word_embeddings": false)", R"("tie_word_embeddings": true)");
  const ModelConfig output = parse_model_config(output_of(text), "config.json");
  EXPECT_TRUE(output.tie_word_embeddings);
  EXPECT_TRUE(output.form.embedding_projection);
  EXPECT_TRUE(output.form.head_projection);
  EXPECT_FALSE(output.has_final_norm());
  EXPECT_EQ(output.embedding_width(), 4096);
  const json untied = json::parse(output_of(kLlama31Config));
  EXPECT_EQ(untied["tie_word_embeddings"], false);
  EXPECT_FALSE(untied.contains("embedding_projection"));
}

std::string output_without_maps(const char* text) {
  const ModelConfig source = parse_model_config(text, "config.json");
  const JunctionWidths widths =
      decided(uniform_widths(source, /*head_sliced=*/true, source.hidden_size), source.hidden_size);
  return output_config_json(text, output_model_config(source, ResolvedJob(), widths));
}

TEST(OutputConfig, WithoutMapsNormsHaveWeightsAndNothingIsAdded) {
  for (const char* text : {kLlama31Config, kQwen25Config, kMixtralConfig, kQwen2MoeConfig,
                           kGlm4MoeConfig, kGptOssConfig}) {
    const ModelConfig source = parse_model_config(text, "config.json");
    const ModelConfig output = parse_model_config(output_without_maps(text), "config.json");
    EXPECT_TRUE(output.form.norm_weights);
    EXPECT_EQ(output.tie_word_embeddings, source.tie_word_embeddings);
    EXPECT_EQ(expected_shapes(output), expected_shapes(source));
  }
}

TEST(OutputConfig, WithoutMapsClassesAreDerivedFromThoseOfTheFamily) {
  json config = json::parse(output_without_maps(kQwen3MoeConfig));
  EXPECT_EQ(config["architectures"], json({"DotResizeQwen3MoeForCausalLM"}));
  EXPECT_EQ(config["auto_map"],
            json({{"AutoConfig", "modeling_layer_sizes.DotResizeQwen3MoeConfig"},
                  {"AutoModel", "modeling_layer_sizes.DotResizeQwen3MoeModel"},
                  {"AutoModelForCausalLM", "modeling_layer_sizes.DotResizeQwen3MoeForCausalLM"}}));
  config["architectures"] = {"DotResizeForCausalLM"};  // as in earlier versions
  EXPECT_TRUE(parse_model_config(config.dump(), "config.json").form.norm_weights);
  config["architectures"] = {"DotResizeMixtralForCausalLM"};
  EXPECT_THROW(parse_model_config(config.dump(), "config.json"), InputError);
}

TEST(OutputConfig, KeepsTheOtherKeysOfTheSource) {
  const json source = json::parse(kLlama31Config);
  const json output = json::parse(output_of(kLlama31Config));
  for (const auto& [key, value] : source.items()) {
    if (key == "architectures" || key == "model_type") continue;
    EXPECT_EQ(output[key], value) << key;
  }
  EXPECT_EQ(output["architectures"], json({"DotResizeForCausalLM"}));
}

TEST(OutputConfig, IsTheSameWhateverTheOrderOfTheKeys) {
  const std::string reordered =
      with(with(kMistralV03Config, R"(  "vocab_size": 32768)", R"(  "use_cache": true)"),
           R"("use_cache": true)", R"("vocab_size": 32768)");
  EXPECT_EQ(output_of(reordered), output_of(kMistralV03Config));
}

}  // namespace
}  // namespace dotresize
