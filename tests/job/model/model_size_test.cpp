#include "job/model/model_size.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "job/model/engine_formats.h"
#include "job/model/read_model_config.h"
#include "job/plan/allocate/junction_widths.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

/// Returns the number of parameters in a safetensors file, summed over its header's shapes.
int64_t parameters_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char size[8];
  file.read(size, 8);
  uint64_t length = 0;
  std::memcpy(&length, size, 8);
  std::string header(length, '\0');
  file.read(header.data(), static_cast<std::streamsize>(length));
  const auto tensors = nlohmann::json::parse(header);
  int64_t total = 0;
  for (const auto& [name, tensor] : tensors.items()) {
    if (name == "__metadata__") continue;
    int64_t elements = 1;
    for (const int64_t extent : tensor.at("shape")) elements *= extent;
    total += elements;
  }
  return total;
}

TEST(ModelSize, DenseParametersAreThePublishedFigures) {
  const auto parameters = [](const char* text) {
    return stored_parameters(parse_model_config(text, "config.json"));
  };
  EXPECT_EQ(parameters(kLlama31Config), 8'030'261'248);
  EXPECT_EQ(parameters(kMistralV03Config), 7'248'023'552);
  EXPECT_EQ(parameters(kPhi3MiniConfig), 3'821'079'552);
  EXPECT_EQ(parameters(kPhi4MiniConfig), 3'836'021'760);
  EXPECT_EQ(parameters(kQwen25Config), 494'032'768);
  EXPECT_EQ(parameters(kQwen3Config), 596'049'920);
  EXPECT_EQ(parameters(kSmolLM3Config), 3'075'098'624);
  EXPECT_EQ(parameters(kQwen35Config), 4'205'751'296);
  EXPECT_EQ(parameters(kGemma2Config), 2'614'341'888);
  EXPECT_EQ(parameters(kGemma3Config), 268'098'176);
  EXPECT_EQ(parameters(kOlmo3Config), 7'298'011'136);
  EXPECT_EQ(parameters(kMinistral3Config), 3'429'006'336);
  EXPECT_EQ(parameters(kDevstral2Config), 125'025'988'608);
  EXPECT_EQ(parameters(kHunyuanConfig), 7'504'568'320);
  EXPECT_EQ(parameters(kMixtralConfig), 46'702'792'704);
  EXPECT_EQ(parameters(kQwen3MoeConfig), 30'532'122'624);
  EXPECT_EQ(parameters(kQwen3CoderConfig), 480'154'875'392);
  EXPECT_EQ(parameters(kQwen2MoeConfig), 14'315'784'192);
  EXPECT_EQ(parameters(kGlm4MoeConfig), 352'797'829'024);
  EXPECT_EQ(parameters(kGptOssConfig), 20'914'757'184);
}

TEST(ModelSize, OfAMixtureATokenMeetsTheRouterAndItsExperts) {
  const ModelConfig mixtral = parse_model_config(kMixtralConfig, "config.json");
  EXPECT_EQ(active_parameters(mixtral, 1), 4096 * (1 + 8 + 2 * 3 * 14336));
  EXPECT_EQ(active_parameters(mixtral, 0), sublayer_parameters(mixtral, 0, 4096, 4096, false));
  EXPECT_EQ(sublayer_parameters(mixtral, 1, 3072, 2048, true),
            8 * (3072 + 14336 * (2 * 3072 + 2048)) + 3072 * 2048);
}

TEST(ModelSize, AllTokensMeetASharedExpertWhichIsCutInProportion) {
  ModelConfig qwen = parse_model_config(kQwen2MoeConfig, "config.json");
  const auto active = [&] { return active_parameters(qwen, 1); };
  EXPECT_EQ(active(), 2048 * (1 + 60 + 4 * 3 * 1408 + 3 * 5632 + 1));
  kFeatures.set_size(704, qwen.layers.front());
  EXPECT_EQ(active(), 2048 * (1 + 60 + 4 * 3 * 704 + 3 * 2816 + 1));
  kFeatures.set_size(1, qwen.layers.front());
  kFeatures.set_size(1408, qwen.layers.front());
  EXPECT_EQ(shared_features(qwen.layers.front().mlp), 5632);
  qwen.layers.front().mlp.mixture->shared_size = 5633;
  kFeatures.set_size(704, qwen.layers.front());
  EXPECT_EQ(features_of_mlps(qwen, 1).back(), 2817);  // rounded up
  EXPECT_EQ(std::ssize(features_of_mlps(qwen, 1)), 61);
  EXPECT_THAT(features_of_mlps(qwen, 0), testing::IsEmpty());
}

TEST(ModelSize, LayersOfAMixtureModelMayBeDense) {
  const ModelConfig config = parse_model_config(
      with(kQwen3MoeConfig, R"("mlp_only_layers": [])", R"("mlp_only_layers": [1])"),
      "config.json");
  EXPECT_EQ(sublayer_parameters(config, 3, 2048, 2048, false), 2048 * (1 + 3 * 6144));
  EXPECT_EQ(active_parameters(config, 3), 2048 * (1 + 3 * 6144));
  EXPECT_EQ(sublayer_parameters(config, 5, 2048, 2048, false), 2048 * (1 + 128 + 128 * 3 * 768));
}

TEST(ModelSize, DenseParametersOfTheExampleAreThoseInItsFile) {
  const std::string dir = DOTRESIZE_SOURCE_DIR "/examples/docs-llama";
  EXPECT_EQ(stored_parameters(read_model_config(dir)), parameters_in(dir + "/model.safetensors"));
}

TEST(ModelSize, TiedEmbeddingsCountOnce) {
  ModelConfig config = small_llama();
  const int64_t untied = stored_parameters(config);
  config.tie_word_embeddings = true;
  EXPECT_EQ(untied - stored_parameters(config), 4096 * 256);
}

/// Returns small_llama with junctions of width k, tied if that is smaller.
ModelConfig tied_llama(int64_t vocabulary, int64_t k, bool projects_head) {
  ModelConfig config = small_llama();
  config.vocab_size = vocabulary;
  config.compressed = config.tie_word_embeddings = true;
  config.form.junction_widths.assign(config.form.junction_widths.size(), k);
  return with_smaller_ends(config, projects_head);
}

TEST(ModelSize, OneTableAndItsProjectionsAreStoredIfTheyAreSmallerThanTwoTables) {
  EXPECT_TRUE(tied_llama(4096, 140, true).tie_word_embeddings);
  EXPECT_EQ(end_size(tied_llama(4096, 140, true)).parameters, 4096 * 256 + 2 * 140 * 256);
  EXPECT_FALSE(tied_llama(4096, 136, true).tie_word_embeddings);  // 272 < 256 · 4096 / 3840
  EXPECT_EQ(end_size(tied_llama(4096, 136, true)).parameters, 2 * 4096 * 136);
  EXPECT_FALSE(tied_llama(200, 248, true).tie_word_embeddings);
  const ModelConfig vector = tied_llama(4096, 256, false);
  EXPECT_EQ(end_size(vector).parameters, 4096 * 256 + 256 * 256 + 256);
  EXPECT_TRUE(vector.has_final_norm());
}

TEST(ModelSize, BiasesCount) {
  ModelConfig config = small_llama();
  const int64_t attention = sublayer_parameters(config, 0, 256, 256, false);
  const int64_t mlp = sublayer_parameters(config, 1, 256, 256, false);
  LayerSpec& layer = config.layers.front();
  layer.attention.bias = layer.attention.output_bias = layer.mlp.bias = true;
  EXPECT_EQ(sublayer_parameters(config, 0, 256, 256, false) - attention, 256 + 64 + 64 + 256);
  EXPECT_EQ(sublayer_parameters(config, 1, 256, 256, false) - mlp, 768 + 768 + 256);
}

TEST(ModelSize, EnginesDoNotQuantiseAConvolution) {
  const ModelConfig config = parse_model_config(kQwen35Config, "config.json");
  for (const FormatSize& size : format_sizes(config)) {
    EXPECT_THAT(size.unfit_rows, testing::IsEmpty()) << size.format;
  }
}

TEST(ModelSize, HeadNormsCountInBothModels) {
  ModelConfig config = small_llama();
  const int64_t dense = sublayer_parameters(config, 0, 256, 256, false);
  const int64_t folded = sublayer_parameters(config, 0, 200, 192, true);
  config.layers.front().attention.head_norms = HeadNorms();
  EXPECT_EQ(sublayer_parameters(config, 0, 256, 256, false) - dense, 2 * 32);
  EXPECT_EQ(sublayer_parameters(config, 0, 200, 192, true) - folded, 2 * 32);
}

TEST(ModelSize, FoldedSublayersHaveAShortcutAndNoNorm) {
  const ModelConfig config = small_llama();
  EXPECT_EQ(sublayer_parameters(config, 0, 200, 192, true),
            (256 + 64 + 64) * 200 + 192 * 256 + 200 * 192);
  EXPECT_EQ(sublayer_parameters(config, 1, 200, 192, true), 2 * 768 * 200 + 192 * 768 + 200 * 192);
}

TEST(ModelSize, AtFullWidthOnlyShortcutsComeAndNormsGo) {
  const ModelConfig dense = small_llama();
  ModelConfig config = dense;
  config.compressed = true;
  EXPECT_EQ(stored_parameters(config) - stored_parameters(dense), 12 * 256 * 256 - 13 * 256);
}

TEST(ModelSize, JunctionsOfOneGroupHaveNoShortcut) {
  ModelConfig config = small_llama();
  config.compressed = true;
  const int64_t own_maps = stored_parameters(config);
  config.form.junction_groups = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3};
  EXPECT_EQ(own_maps - stored_parameters(config), 9 * 256 * 256);
}

TEST(ModelSize, AStockModelCountsItsNorms) {
  ModelConfig config = small_llama();
  config.hidden_size = 208;
  config.form.junction_widths.assign(13, 208);
  const int64_t attention = 208 * (256 + 2 * 64 + 256);
  EXPECT_EQ(stored_parameters(config), 2 * 4096 * 208 + 6 * (attention + 3 * 768 * 208) + 13 * 208);
}

TEST(ModelSize, WidthIsTheWholeMultipleBelow) {
  EXPECT_EQ(width_from_sparsity(0.2, 4096, 64), 3264);
  EXPECT_EQ(width_from_sparsity(0.2, 256, 8), 200);
  EXPECT_EQ(width_from_sparsity(0.3, 256, 8), 176);
  EXPECT_EQ(width_from_sparsity(0.2, 256, 1), 204);
  EXPECT_EQ(width_from_sparsity(0.0, 256, 8), 256);
  EXPECT_EQ(width_from_sparsity(0.0, 4096, 64), 4096);
}

TEST(ModelSize, WidthForgivesTheRoundingOfDecimals) {
  // (1 - 0.9) * 80 is slightly below 8 in double precision.
  EXPECT_EQ(width_from_sparsity(0.9, 80, 8), 8);
}

TEST(ModelSize, NoWidthMayBeLeft) {
  EXPECT_EQ(width_from_sparsity(0.99, 256, 8), 0);
  EXPECT_EQ(width_from_sparsity(0.2, 256, 1000), 0);
}

/// Returns the sum over the table's tensors, by their names.
TensorsSize sum_of_tensors(const ModelConfig& config) {
  TensorsSize sum;
  for (const auto& [name, shape] : expected_shapes(config)) {
    const int64_t elements =
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies());
    sum = sum + TensorsSize{elements, elements * size_in_bytes(config.files.dtypes.of(name))};
  }
  return sum;
}

TEST(ModelSize, BytesAreThoseOfEachTensorsDtype) {
  for (const char* text : {kLlama31Config, kQwen3Config, kPhi3MiniConfig, kQwen3MoeConfig}) {
    ModelConfig config = parse_model_config(text, "config.json");
    config.files.dtypes = {Dtype::kFloat16, {}};
    EXPECT_EQ(stored_bytes(config), 2 * stored_parameters(config));
    for (const auto& [name, shape] : expected_shapes(config)) {
      const bool is_expert = name.find("experts.5.up_proj") != std::string::npos;
      if (shape.size() == 1 || name.ends_with("mlp.gate.weight") || is_expert) {
        config.files.dtypes.set(name, Dtype::kFloat32);
      }
    }
    config.files.dtypes.set("model.layers.1.self_attn.o_proj.weight", Dtype::kBFloat16);
    config.files.dtypes.set("model.embed_tokens.weight", Dtype::kFloat32);
    config.files.dtypes.set("model.rotary.inv_freq", Dtype::kFloat32);  // no tensor of the model
    EXPECT_EQ(stored_bytes(config), sum_of_tensors(config).bytes);
    EXPECT_EQ(stored_parameters(config), sum_of_tensors(config).parameters);
    int64_t of_shards = 0;
    for (int64_t s = 0; s < config.num_sublayers(); ++s)
      of_shards += shard_size(config, s, s + 1).bytes;
    const int64_t again = config.tie_word_embeddings ? embedding_matrix_size(config).bytes : 0;
    EXPECT_EQ(of_shards - again, stored_bytes(config));
    EXPECT_FALSE(stored_dtypes(config).others.contains("model.rotary.inv_freq"));
    EXPECT_EQ(to_string(stored_dtypes(config)), "float16, some float32, some bfloat16");
  }
}

TEST(ModelSize, TheFormOfTheEndsIsTheOneWithFewerBytes) {
  ModelConfig config = small_llama();
  config.compressed = config.tie_word_embeddings = true;
  config.form.junction_widths.assign(config.form.junction_widths.size(), 136);
  EXPECT_FALSE(with_smaller_ends(config, true).tie_word_embeddings);
  config.files.dtypes.set("lm_head.weight", Dtype::kFloat32);  // 2 and 4 bytes for 2 and 2
  EXPECT_TRUE(with_smaller_ends(config, true).tie_word_embeddings);
}

}  // namespace
}  // namespace dotresize
