#include "job/output_config.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/job/test_configs.h"

namespace dotresize {
namespace {

using nlohmann::json;

std::string output_of(const std::string& source_text, Dtype dtype = Dtype::kBFloat16) {
  const ModelConfig source = parse_model_config(source_text, "config.json");
  std::vector<int64_t> widths(static_cast<std::size_t>(source.num_junctions()), 640);
  widths.back() = source.hidden_size;
  return output_config_json(source_text, source, widths, dtype);
}

TEST(OutputConfig, IsReadBackAsTheCompressedModel) {
  for (const char* text :
       {kLlama31Config, kMistralV03Config, kPhi3MiniConfig, kQwen25Config, kQwen3Config}) {
    const ModelConfig source = parse_model_config(text, "config.json");
    const ModelConfig output = parse_model_config(output_of(text), "config.json");
    EXPECT_TRUE(output.compressed);
    EXPECT_EQ(output.family, source.family);
    EXPECT_EQ(output.hidden_size, source.hidden_size);
    EXPECT_EQ(output.head_dim, source.head_dim);
    EXPECT_EQ(output.num_kv_heads, source.num_kv_heads);
    EXPECT_EQ(output.attention_bias, source.attention_bias);
    EXPECT_EQ(output.output_bias, source.output_bias);
    EXPECT_EQ(output.fused_readers, source.fused_readers);
    EXPECT_EQ(output.head_norms, source.head_norms);
    EXPECT_EQ(output.rms_norm_eps, source.rms_norm_eps);
    EXPECT_EQ(output.sliding_window, source.sliding_window);
    EXPECT_EQ(output.rotary.type, source.rotary.type);
    EXPECT_EQ(output.rotary.theta, source.rotary.theta);
    EXPECT_EQ(output.rotary.factor, source.rotary.factor);
    EXPECT_EQ(output.junction_widths.front(), 640);
    EXPECT_EQ(output.junction_widths.back(), source.hidden_size);
    EXPECT_EQ(output.dtype, "bfloat16");
  }
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

TEST(OutputConfig, UntiesTheEmbeddings) {
  const json output = json::parse(output_of(
      with(kLlama31Config, R"("tie_word_embeddings": false)", R"("tie_word_embeddings": true)")));
  EXPECT_EQ(output["tie_word_embeddings"], false);
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
