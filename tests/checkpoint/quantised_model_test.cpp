#include <array>
#include <cmath>

#include "tests/checkpoint/source_model.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kUp[] = "model.layers.0.mlp.up_proj.weight";

TEST_F(SourceModelTest, WeightsOf8BitsAreReadAsBFloat16) {
  json config = llama_json();
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
  EXPECT_EQ(model.config.files.quantisation->name, "compressed-tensors");
  EXPECT_EQ(model.config.files.dtypes, (StoredDtypes{Dtype::kBFloat16, {}}));
  const CheckpointReader reader(dir_.path(), model.config);
  const at::Tensor expected = at::arange(-48, 48, at::kFloat).view({12, 8}) * scales;
  EXPECT_TRUE(at::equal(reader.get(kUp, {12, 8}), expected.to(at::kBFloat16)));
}

TEST_F(SourceModelTest, BlocksNeedNotDivideAWeight) {
  json config = llama_json();
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

TEST_F(SourceModelTest, AQuantisedTextPartIsReadAndOtherQuantisedPartsAreRefused) {
  json config = wrapper_json();
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
  EXPECT_EQ(model.config.files.wrapper->other_tensors, 2);
  const at::Tensor weight = CheckpointReader(dir_.path(), model.config).get(kUp, {12, 8});
  EXPECT_TRUE(at::equal(weight, at::full({12, 8}, 1.5, at::kBFloat16)));
  write(config, [&](NamedTensors& tensors) {
    bend(tensors);
    tensors.emplace_back("vision_tower.q.weight", at::ones({2, 2}, at::kChar));
  });
  EXPECT_THAT(fault(), HasSubstr("tensor 'vision_tower.q.weight', I8, is quantised and not of the "
                                 "text part"));
}

TEST_F(SourceModelTest, ScalesThatDoNotFitAreRefused) {
  json config = llama_json();
  config["quantization_config"] = int8_by_matrix();
  const auto fault_of = [&](const std::vector<std::pair<std::string, at::Tensor>>& beside) {
    write(config, [&](NamedTensors& tensors) {
      tensor_of(tensors, kUp) = at::ones({12, 8}, at::kChar);
      for (const auto& [ending, tensor] : beside) tensors.emplace_back(kUp + ending, tensor);
    });
    return fault();
  };
  EXPECT_THAT(fault_of({}), HasSubstr("has no scales: neither"));
  write(config, [&](NamedTensors& tensors) {
    tensor_of(tensors, kUp) = at::ones({12, 8}, at::kByte);
  });
  EXPECT_THAT(fault(), HasSubstr("has dtype U8, expected one of F32, F16, BF16; config.json says "
                                 "quantization_config 'compressed-tensors' with weights in I8"));
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

/// Stores the experts' gate_up_proj in 4 bits: pairs of codes and exponents.
void pack(NamedTensors& tensors, const at::Tensor& pairs, const at::Tensor& exponents) {
  const std::string name = std::string(kExpertPrefix) + "gate_up_proj";
  std::erase_if(tensors, [&](const auto& entry) { return entry.first == name; });
  tensors.emplace_back(name + "_blocks", pairs);
  if (exponents.defined()) tensors.emplace_back(name + "_scales", exponents);
}

TEST_F(SourceModelTest, WeightsOf4BitsAreReadAsBFloat16) {
  json config = gpt_oss_json();
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  const at::Tensor pairs = at::randint(0, 256, {3, 128, 1, 16}, at::kByte);
  const at::Tensor exponents = at::randint(100, 140, {3, 128, 1}, at::kByte);
  write(config, [&](NamedTensors& tensors) { pack(tensors, pairs, exponents); });
  const SourceModel model = read();
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(model.config.files.dtypes, (StoredDtypes{Dtype::kBFloat16, {}}));
  const std::string name = std::string(kExpertPrefix) + "2.gate_up_proj.weight";
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
  json config = gpt_oss_json();
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

}  // namespace
}  // namespace dotresize
