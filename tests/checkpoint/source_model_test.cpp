#include "job/checkpoint/source_model.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "job/model/wrappers.h"
#include "tests/checkpoint/checkpoint_files.h"
#include "tests/temporary_directory.h"
#include "worker/checkpoint/reader.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

json llama() {
  return {{"model_type", "llama"},       {"hidden_size", 8},         {"intermediate_size", 12},
          {"num_hidden_layers", 1},      {"num_attention_heads", 2}, {"vocab_size", 10},
          {"tie_word_embeddings", true}, {"rms_norm_eps", 1e-6},     {"torch_dtype", "bfloat16"}};
}

json mixtral() {
  json config = llama();
  config.update({{"model_type", "mixtral"},
                 {"num_key_value_heads", 2},
                 {"num_local_experts", 3},
                 {"num_experts_per_tok", 2}});
  return config;
}

json wrapper() {
  json text = llama();
  text.erase("torch_dtype");
  return {{"model_type", "llava"},
          {"torch_dtype", "bfloat16"},
          {"tie_word_embeddings", true},
          {"text_config", text},
          {"vision_config", {{"hidden_size", 4}}}};
}

/// Gives the tensors the names of a wrapper's text part, and adds two of other parts.
void wrap(NamedTensors& tensors, const std::string& base, const std::string& head) {
  for (auto& [name, tensor] : tensors) {
    name = name.starts_with("lm_head.") ? head + name.substr(8) : base + name.substr(6);
  }
  tensors.emplace_back("vision_tower.weight", at::ones({3, 2}, at::kHalf));
  tensors.emplace_back("vision_tower.position_ids", at::arange(5));
}

/// A model directory, whose weights are numbered so that no two tensors are alike.
class SourceModelTest : public testing::Test {
 protected:
  void write(const json& config, const std::function<void(NamedTensors&)>& bend = {}) {
    const std::string text = config.dump();
    put_file(dir_ / "config.json", text);
    NamedTensors tensors;
    double number = 1;
    for (const auto& [name, shape] : expected_shapes(parse_model_config(text, "config.json"))) {
      tensors.emplace_back(name, at::full(shape, number++, at::kBFloat16));
    }
    if (bend) bend(tensors);
    write_single_file(dir_.path(), tensors);
  }

  SourceModel read() const { return read_source_model(dir_.path()); }
  std::string fault() const {
    try {
      read_model_with_weights(dir_.path());
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }

  const TemporaryDirectory dir_;
};

at::Tensor& tensor_of(NamedTensors& tensors, const std::string& name) {
  return std::ranges::find(tensors, name, &std::pair<std::string, at::Tensor>::first)->second;
}

TEST_F(SourceModelTest, AModelAsTransformersWritesItHasNoWarnings) {
  write(llama());
  EXPECT_THAT(read().warnings, IsEmpty());
  EXPECT_EQ(read().config.dtypes, (StoredDtypes{Dtype::kBFloat16, {}}));
}

TEST_F(SourceModelTest, TheTextPartOfAWrapperHasTheNamesOfAModelOfText) {
  for (const auto& [base, head] : {std::pair("language_model.model.", "language_model.lm_head."),
                                   std::pair("model.language_model.", "lm_head.")}) {
    write(wrapper(), [&](NamedTensors& tensors) { wrap(tensors, base, head); });
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
  write(wrapper());
  EXPECT_THAT(fault(), AllOf(HasSubstr("no tensor of the text part, whose names begin with "
                                       "'language_model.model.' or 'model.language_model.'"),
                             HasSubstr("such as 'model.embed_tokens.weight'")));
  write(wrapper(), [](NamedTensors& tensors) {
    wrap(tensors, "language_model.model.", "");
    tensors.emplace_back("lm_head.weight", at::ones({10, 8}, at::kBFloat16));
  });
  EXPECT_THAT(fault(), HasSubstr("tensor 'lm_head.weight' is of the text part, whose other names "
                                 "begin with 'language_model.model.'"));
}

TEST_F(SourceModelTest, AWrapperThatCallsATextPartWithAHeadTiedHasAHead) {
  json config = wrapper();
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

constexpr char kUp[] = "model.layers.0.mlp.up_proj.weight";

TEST_F(SourceModelTest, WeightsOf8BitsAreReadAsBFloat16) {
  json config = llama();
  config["quantization_config"] = {
      {"quant_method", "compressed-tensors"},
      {"format", "int-quantized"},
      {"config_groups",
       {{"one", {{"weights", {{"num_bits", 8}, {"type", "int"}, {"strategy", "channel"}}}}}}}};
  const at::Tensor scales = at::arange(1, 13, at::kFloat).view({12, 1});
  write(config, [&](NamedTensors& tensors) {
    tensor_of(tensors, kUp) = at::arange(-48, 48, at::kChar).view({12, 8});
    tensors.emplace_back(std::string(kUp) + "_scale", scales);
    tensors.emplace_back("model.layers.0.self_attn.k_scale", at::ones({1}));
  });
  const SourceModel model = read();
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(model.config.quantisation->name, "compressed-tensors");
  EXPECT_EQ(model.config.dtypes, (StoredDtypes{Dtype::kBFloat16, {}}));
  const CheckpointReader reader(dir_.path(), model.config);
  const at::Tensor expected = at::arange(-48, 48, at::kFloat).view({12, 8}) * scales;
  EXPECT_TRUE(at::equal(reader.get(kUp, {12, 8}), expected.to(at::kBFloat16)));
}

TEST_F(SourceModelTest, BlocksNeedNotDivideAWeight) {
  json config = llama();
  config["quantization_config"] = {
      {"quant_method", "compressed-tensors"},
      {"format", "naive-quantized"},
      {"config_groups",
       {{"one",
         {{"weights", {{"type", "int"}, {"strategy", "block"}, {"block_structure", {5, 3}}}}}}}}};
  const at::Tensor scales = at::arange(1, 10, at::kFloat).view({3, 3});
  write(config, [&](NamedTensors& tensors) {
    tensor_of(tensors, kUp) = at::ones({12, 8}, at::kChar);
    tensors.emplace_back(std::string(kUp) + "_scale_inv", scales);
  });
  const at::Tensor weight = CheckpointReader(dir_.path(), read().config).get(kUp, {12, 8});
  for (int64_t row = 0; row < 12; ++row) {
    for (int64_t column = 0; column < 8; ++column) {
      EXPECT_EQ(weight[row][column].item<float>(), scales[row / 5][column / 3].item<float>());
    }
  }
}

json int8_by_matrix() {
  return {{"quant_method", "compressed-tensors"},
          {"format", "int-quantized"},
          {"config_groups", {{"one", {{"weights", {{"type", "int"}, {"strategy", "tensor"}}}}}}}};
}

TEST_F(SourceModelTest, AQuantisedTextPartIsReadAndOtherQuantisedPartsAreRefused) {
  json config = wrapper();
  config["quantization_config"] = int8_by_matrix();
  const auto bend = [](NamedTensors& tensors) {
    tensor_of(tensors, kUp) = at::full({12, 8}, 3, at::kChar);
    tensors.emplace_back(std::string(kUp) + "_scale", at::full({1}, 0.5));
    const std::string module = std::string(kUp).substr(0, std::string(kUp).rfind('.'));
    tensors.emplace_back(module + ".input_scale", at::full({1}, 0.25));
    tensors.emplace_back(module + ".input_zero_point", at::zeros({1}, at::kChar));
    wrap(tensors, "language_model.model.", "language_model.lm_head.");
  };
  write(config, bend);
  const SourceModel model = read();
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(model.config.wrapper->other_tensors, 2);
  const at::Tensor weight = CheckpointReader(dir_.path(), model.config).get(kUp, {12, 8});
  EXPECT_TRUE(at::equal(weight, at::full({12, 8}, 1.5, at::kBFloat16)));
  write(config, [&](NamedTensors& tensors) {
    bend(tensors);
    tensors.emplace_back("vision_tower.q.weight", at::ones({2, 2}, at::kChar));
  });
  EXPECT_THAT(fault(), HasSubstr("tensor 'vision_tower.q.weight', I8, is quantised and not of the "
                                 "text part"));
}

json qwen3_5_around_text() {
  json config = wrapper();
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
  EXPECT_EQ(model.config.wrapper->other_tensors, 2);
  EXPECT_THAT(model.warnings,
              ElementsAre(AllOf(HasSubstr("tensors 'mtp.layers.0.mlp.up_proj.weight', "),
                                HasSubstr("layers that predict further tokens are not read, and "
                                          "an output has none"))));
}

TEST_F(SourceModelTest, TheLayerBehindTheLastOneOfAGlmPredictsFurtherTokens) {
  json config = llama();
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

TEST_F(SourceModelTest, ScalesThatDoNotFitAreRefused) {
  json config = llama();
  config["quantization_config"] = int8_by_matrix();
  const auto fault_of = [&](const std::vector<std::pair<std::string, at::Tensor>>& beside) {
    write(config, [&](NamedTensors& tensors) {
      tensor_of(tensors, kUp) = at::ones({12, 8}, at::kChar);
      for (const auto& [ending, tensor] : beside) tensors.emplace_back(kUp + ending, tensor);
    });
    return fault();
  };
  EXPECT_THAT(fault_of({}), HasSubstr("has no scales: neither"));
  EXPECT_THAT(fault_of({{"_scale", at::ones({1})}, {"_scale_inv", at::ones({1})}}),
              HasSubstr("has both '_scale_inv' and '_scale'"));
  EXPECT_THAT(fault_of({{"_scale", at::ones({1})}, {"_zero_point", at::ones({1})}}),
              HasSubstr("has zero points"));
  EXPECT_THAT(fault_of({{"_scale", at::ones({1}, at::kByte)}}),
              HasSubstr("has scales in U8, expected one of F32, F16, BF16"));
  EXPECT_THAT(fault_of({{"_scale", at::ones({8})}}),
              HasSubstr("has scales of the shape [8], expected [12, 1] or one scale"));
  EXPECT_EQ(fault_of({{"_scale", at::ones({1})}}), "accepted");
  std::string bytes = file_bytes(dir_ / kSingleFile);
  const SafetensorsFile file(dir_ / kSingleFile);
  bytes.replace(file.header.tensors.at(std::string(kUp) + "_scale").begin, 4, "\xff\xff\xff\xff");
  put_file(dir_ / kSingleFile, bytes);
  const CheckpointReader reader(dir_.path(), read().config);
  EXPECT_THAT(
      [&] {
        reader.get(kUp, {12, 8});
      },
      testing::ThrowsMessage<InputError>(HasSubstr("_scale' holds NaN or infinity")));
  config["quantization_config"]["config_groups"]["one"]["weights"].update(
      {{"strategy", "block"}, {"block_structure", {4, 4}}});
  EXPECT_THAT(fault_of({{"_scale", at::ones({3, 3})}}),
              HasSubstr("has scales of the shape [3, 3], expected [3, 2]; in config.json"));
}

TEST_F(SourceModelTest, DtypesAreThoseOfTheTensors) {
  json config = llama();
  config["torch_dtype"] = "float32";
  write(config);
  EXPECT_EQ(read().config.dtypes.main, Dtype::kBFloat16);
  EXPECT_THAT(read().warnings,
              ElementsAre(HasSubstr("config.json says float32, and the tensors are bfloat16")));
  write(llama(), [](NamedTensors& tensors) {
    at::Tensor& table = tensor_of(tensors, "model.embed_tokens.weight");
    table = table.to(at::kFloat);
  });
  const StoredDtypes dtypes = read().config.dtypes;
  EXPECT_EQ(dtypes.main, Dtype::kBFloat16);
  EXPECT_EQ(dtypes.of("model.embed_tokens.weight"), Dtype::kFloat32);
  EXPECT_EQ(dtypes.others.size(), 1u);
}

TEST_F(SourceModelTest, NamesOfABaseModelAreCompleted) {
  write(llama(), [](NamedTensors& tensors) {
    for (auto& [name, tensor] : tensors) name = name.substr(std::string("model.").size());
  });
  const SourceModel model = read();
  EXPECT_EQ(model.table->tensors.at("model.norm.weight").stored_name, "norm.weight");
  const CheckpointReader reader(dir_.path(), model.config);
  EXPECT_TRUE(reader.has("model.layers.0.self_attn.q_proj.weight"));
}

TEST_F(SourceModelTest, FusedExpertsAreTakenApart) {
  write(mixtral());
  const SourceModel apart = read();
  const auto matrix = [&](const char* name) {
    const TensorPlace& place = apart.table->tensors.at(name);
    return CheckpointReader(dir_.path(), apart.config).get(name, place.shape).clone();
  };
  const std::string block = "model.layers.0.block_sparse_moe.";
  std::map<std::string, at::Tensor> expected;
  for (const auto& entry : apart.table->tensors) {
    expected.emplace(entry.first, matrix(entry.first.c_str()));
  }
  write(mixtral(), [&](NamedTensors& tensors) {
    std::vector<at::Tensor> in;
    std::vector<at::Tensor> out;
    for (int expert = 0; expert < 3; ++expert) {
      const std::string prefix = block + "experts." + std::to_string(expert);
      in.push_back(
          at::cat({expected.at(prefix + ".w1.weight"), expected.at(prefix + ".w3.weight")}));
      out.push_back(expected.at(prefix + ".w2.weight"));
    }
    std::erase_if(tensors, [&](const auto& entry) { return entry.first.starts_with(block); });
    const std::string mlp = "model.layers.0.mlp.";
    tensors.emplace_back(mlp + "gate.weight", expected.at(block + "gate.weight"));
    tensors.emplace_back(mlp + "experts.gate_up_proj", at::stack(in));
    tensors.emplace_back(mlp + "experts.down_proj", at::stack(out));
  });
  const SourceModel fused = read();
  EXPECT_THAT(fused.warnings, IsEmpty());
  const CheckpointReader reader(dir_.path(), fused.config);
  for (const auto& [name, tensor] : expected) {
    EXPECT_TRUE(at::equal(reader.get(name, tensor.sizes()), tensor)) << name;
  }
}

json gpt_oss() {
  json config = llama();
  config.update({{"model_type", "gpt_oss"},
                 {"num_key_value_heads", 2},
                 {"head_dim", 4},
                 {"hidden_size", 32},
                 {"intermediate_size", 64},
                 {"num_local_experts", 3},
                 {"num_experts_per_tok", 2},
                 {"rope_scaling", {{"rope_type", "default"}}}});
  return config;
}

constexpr char kExperts[] = "model.layers.0.mlp.experts.";

/// Returns the matrix of an expert as it is computed with, [out, in].
at::Tensor expert(const at::Tensor& stacked, int64_t number) { return stacked[number].t(); }

TEST_F(SourceModelTest, ATensorOfAllExpertsIsSeenAsOneOfEach) {
  const std::string in = std::string(kExperts) + "gate_up_proj";
  const std::string out = std::string(kExperts) + "down_proj";
  const at::Tensor gate_up = at::arange(3 * 32 * 128, at::kFloat).view({3, 32, 128});
  const at::Tensor bias = at::arange(3 * 128, at::kFloat).view({3, 128});
  const auto bend = [&](NamedTensors& tensors) {
    for (auto& entry : tensors) entry.second = entry.second.to(at::kFloat);
    tensor_of(tensors, in) = gate_up;
    tensor_of(tensors, in + "_bias") = bias;
  };
  write(gpt_oss(), bend);
  const SourceModel model = read();
  const CheckpointReader reader(dir_.path(), model.config);
  EXPECT_FALSE(reader.has(in));
  for (int64_t number = 0; number < 3; ++number) {
    const std::string name = kExperts + std::to_string(number) + ".";
    EXPECT_TRUE(
        at::equal(reader.get(name + "gate_up_proj.weight", {128, 32}), expert(gate_up, number)));
    EXPECT_TRUE(at::equal(reader.get(name + "gate_up_proj.bias", {128}), bias[number]));
    EXPECT_EQ(reader.shape(name + "down_proj.weight"), (std::vector<int64_t>{32, 64}));
  }
  write(gpt_oss(), [&](NamedTensors& tensors) {
    bend(tensors);
    tensor_of(tensors, out) = at::ones({3, 32, 64});
  });
  EXPECT_THAT(fault(), HasSubstr("tensor 'model.layers.0.mlp.experts.down_proj' has shape [3, 32, "
                                 "64], expected [3, 64, 32]"));
  write(gpt_oss(),
        [&](NamedTensors& tensors) { tensor_of(tensors, in + "_bias") = bias.to(at::kHalf)[0]; });
  EXPECT_THAT(fault(), HasSubstr("gate_up_proj_bias' has shape [128], expected [3, 128]"));
}

/// Stores the experts' gate_up_proj in 4 bits: pairs of codes and exponents.
void pack(NamedTensors& tensors, const at::Tensor& pairs, const at::Tensor& exponents) {
  const std::string name = std::string(kExperts) + "gate_up_proj";
  std::erase_if(tensors, [&](const auto& entry) { return entry.first == name; });
  tensors.emplace_back(name + "_blocks", pairs);
  if (exponents.defined()) tensors.emplace_back(name + "_scales", exponents);
}

TEST_F(SourceModelTest, WeightsOf4BitsAreReadAsBFloat16) {
  json config = gpt_oss();
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  const at::Tensor pairs = at::randint(0, 256, {3, 128, 1, 16}, at::kByte);
  const at::Tensor exponents = at::randint(100, 140, {3, 128, 1}, at::kByte);
  write(config, [&](NamedTensors& tensors) { pack(tensors, pairs, exponents); });
  const SourceModel model = read();
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(model.config.dtypes, (StoredDtypes{Dtype::kBFloat16, {}}));
  const std::string name = std::string(kExperts) + "2.gate_up_proj.weight";
  const at::Tensor weight = CheckpointReader(dir_.path(), model.config).get(name, {128, 32});
  constexpr std::array<double, 8> kValues = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int64_t row = 0; row < 128; row += 7) {
    for (int64_t column = 0; column < 32; ++column) {
      const int64_t pair = pairs[2][row][0][column / 2].item<int64_t>();
      const int64_t code = column % 2 == 0 ? pair % 16 : pair / 16;
      const double value = std::ldexp(kValues.at(static_cast<size_t>(code % 8)),
                                      exponents[2][row][0].item<int>() - 127);
      EXPECT_EQ(weight[row][column].item<double>(), code < 8 ? value : -value);
    }
  }
  EXPECT_EQ(fault(), "accepted");
}

TEST_F(SourceModelTest, BlocksOf4BitsThatDoNotFitAreRefused) {
  json config = gpt_oss();
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  const auto fault_of = [&](const at::Tensor& pairs, const at::Tensor& exponents) {
    write(config, [&](NamedTensors& tensors) { pack(tensors, pairs, exponents); });
    return fault();
  };
  const auto bytes = [](at::IntArrayRef shape) { return at::ones(shape, at::kByte); };
  EXPECT_THAT(
      fault_of(bytes({3, 128, 1, 16}), {}),
      HasSubstr("has no scales: 'model.layers.0.mlp.experts.gate_up_proj_scales' is missing"));
  EXPECT_THAT(fault_of(bytes({3, 128, 32}), bytes({3, 128, 1})),
              HasSubstr("expected are [experts, rows, blocks, 16], all above 0"));
  EXPECT_THAT(fault_of(bytes({3, 128, 1, 16}), bytes({3, 128})),
              HasSubstr("has scales in U8 of the shape [3, 128], expected U8 of [3, 128, 1]"));
  EXPECT_THAT(fault_of(bytes({3, 128, 1, 16}), at::ones({3, 128, 1})),
              HasSubstr("has scales in F32 of the shape [3, 128, 1], expected U8"));
  EXPECT_THAT(fault_of(bytes({3, 64, 1, 16}), bytes({3, 64, 1})),
              HasSubstr("gate_up_proj' has shape [3, 32, 64], expected [3, 32, 128]"));
  config.erase("quantization_config");
  EXPECT_THAT(fault_of(bytes({3, 128, 1, 16}), bytes({3, 128, 1})),
              HasSubstr("quantised weights, as MXFP4 stores them"));
}

TEST_F(SourceModelTest, ATiedHeadMustBeTheEmbedding) {
  const auto with_head = [](at::Tensor head) {
    return [head](NamedTensors& tensors) { tensors.emplace_back("lm_head.weight", head); };
  };
  at::Tensor table;
  write(llama(), [&](NamedTensors& tensors) {
    table = tensor_of(tensors, "model.embed_tokens.weight");
    with_head(table)(tensors);
  });
  EXPECT_EQ(fault(), "accepted");
  write(llama(), with_head(table + 1));
  EXPECT_THAT(fault(), AllOf(HasSubstr("tie_word_embeddings: is true"),
                             HasSubstr("other values than the embedding"),
                             HasSubstr("\"tie_word_embeddings\": false")));
  // transformers 5 ties the two in this direction too.
  write(llama(), [](NamedTensors& tensors) {
    std::ranges::find(tensors, "model.embed_tokens.weight",
                      &std::pair<std::string, at::Tensor>::first)
        ->first = "lm_head.weight";
  });
  EXPECT_EQ(fault(), "accepted");
}

TEST_F(SourceModelTest, WhatIsStoredInPlaceOfAMissingTensorIsSaid) {
  const auto prefixed = [](const std::string& prefix) {
    return [prefix](NamedTensors& tensors) {
      for (auto& [name, tensor] : tensors) name = prefix + name;
    };
  };
  write(llama(), prefixed("_orig_mod."));
  EXPECT_THAT(fault(), HasSubstr("as torch.compile gives them"));
  write(llama(), prefixed("base_model.model."));
  EXPECT_THAT(fault(), HasSubstr("merge_and_unload"));
  write(llama(), [](NamedTensors& tensors) {
    auto& [name, tensor] = tensors.at(2);
    name.replace(name.rfind("weight"), 6, "qweight");
  });
  EXPECT_THAT(fault(), HasSubstr("quantised weights, as GPTQ or AWQ stores them"));
  json untied = llama();
  untied["tie_word_embeddings"] = false;
  write(untied, [](NamedTensors& tensors) {
    std::erase_if(tensors, [](const auto& entry) { return entry.first == "lm_head.weight"; });
  });
  EXPECT_THAT(fault(), HasSubstr("\"tie_word_embeddings\": true"));
}

TEST_F(SourceModelTest, ADirectoryWithoutWeightsSaysWhatItHas) {
  const auto advice_beside = [&](const std::string& file) {
    const TemporaryDirectory dir;
    put_file(dir / "config.json", llama().dump());
    put_file(dir / file, "");
    try {
      read_model_with_weights(dir.path());
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(advice_beside("m-q4.gguf"), HasSubstr("that the GGUF file was made from"));
  EXPECT_THAT(advice_beside("consolidated.safetensors"), HasSubstr("Mistral's or Meta's own"));
  EXPECT_THAT(advice_beside("pytorch_model-00001-of-00002.bin"), HasSubstr("save_pretrained"));
  put_file(dir_ / "config.json", llama().dump());
  put_file(dir_ / "model.safetensors",
           "version https://git-lfs.github.com/spec/v1\noid sha256:1\n");
  EXPECT_THAT(fault(), HasSubstr("git lfs pull"));
}

TEST_F(SourceModelTest, AnAdapterIsRefusedAndOtherWeightsAreNamed) {
  write(llama());
  put_file(dir_ / "model-00001-of-00006.safetensors", "");
  put_file(dir_ / "README.md", "");
  put_file(dir_ / "consolidated.safetensors", "");
  EXPECT_THAT(read().warnings,
              ElementsAre(AllOf(HasSubstr("model-00001-of-00006.safetensors: not read"),
                                Not(HasSubstr("consolidated")))));
  put_file(dir_ / "adapter_config.json", "{}");
  EXPECT_THAT(fault(), HasSubstr("transformers with peft adds this adapter"));
}

TEST_F(SourceModelTest, UnknownKeysAndTensorsAreNamed) {
  json config = llama();
  config["embedding_multiplier"] = 12;
  config["use_cache"] = true;
  write(config, [](NamedTensors& tensors) {
    tensors.emplace_back("model.layers.0.self_attn.q_norm.weight", at::ones({4}));
    tensors.emplace_back("model.layers.0.self_attn.rotary_emb.inv_freq", at::ones({2}));
  });
  EXPECT_THAT(read().warnings,
              ElementsAre(AllOf(HasSubstr("embedding_multiplier"), Not(HasSubstr("use_cache"))),
                          AllOf(HasSubstr("q_norm.weight'"), Not(HasSubstr("inv_freq")))));
}

TEST_F(SourceModelTest, AnIndexNeedNotListWhatIsComputed) {
  write(llama());
  const SourceModel whole = read();
  json index = {{"weight_map", json::object()}};
  for (const auto& entry : whole.table->tensors) {
    index["weight_map"][entry.first] = "model-00001-of-00001.safetensors";
  }
  index["weight_map"]["model.layers.0.self_attn.rotary_emb.inv_freq"] =
      "model-00001-of-00001.safetensors";
  std::filesystem::rename(dir_ / "model.safetensors", dir_ / "model-00001-of-00001.safetensors");
  put_file(dir_ / "model.safetensors.index.json", index.dump());
  EXPECT_EQ(fault(), "accepted");
}

}  // namespace
}  // namespace dotresize
