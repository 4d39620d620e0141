#include "tests/job/model/bad_config.h"

namespace dotresize {
namespace {

std::string quantised(const std::string& keys) {
  return put(kLlama31Config, R"("quantization_config": {)" + keys + "}");
}

/// Returns a config of compressed-tensors, in whose weights one key differs from float8 by matrix.
std::string compressed(const std::string& format, const std::string& key) {
  return quantised(R"("quant_method": "compressed-tensors", "format": ")" + format +
                   R"(", "config_groups": {"one": {"weights": {)" + key + "}}}");
}

std::vector<BadConfig> bad_quantisations() {
  return {
      {"Quantised", put(kLlama31Config, R"("quantization_config": {"bits": 4})"),
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
      {"TwoForms",
       put(kLlama31Config, R"("quantization_config": {"quant_method": "fp8"}, "compression_config":
           {"format": "int-quantized", "config_groups": {"one": {"weights": {}}}})"),
       "compression_config: differs from quantization_config"},
      {"NoGroups",
       quantised(R"("quant_method": "compressed-tensors", "format": "float-quantized")"),
       "quantization_config.config_groups: is missing"},
  };
}

INSTANTIATE_TEST_SUITE_P(Quantisation, BadConfigs, testing::ValuesIn(bad_quantisations()),
                         case_name_of);

}  // namespace
}  // namespace dotresize
