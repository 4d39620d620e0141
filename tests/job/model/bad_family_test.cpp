#include "tests/job/model/bad_config.h"

namespace dotresize {
namespace {

std::vector<BadConfig> bad_families() {
  return {
      {"Gpt2", put(kLlama31Config, R"("model_type": "gpt2")"),
       "'gpt2' is refused: it uses LayerNorm"},
      {"WrapperOfNothing", put(kLlama31Config, R"("model_type": "gemma3")"),
       "text_config: is missing"},
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
      {"OtherGateOfADeltaNet", put(kQwen35Config, R"("output_gate_type": "sigmoid")"),
       "output_gate_type: 'sigmoid' is refused; only 'swish' is supported"},
      {"WrapperWithAMissingSize", R"({"model_type": "gemma3", "text_config": {"hidden_size": 8}})",
       "text_config.intermediate_size: is missing"},
      {"GptNeox", put(kLlama31Config, R"("model_type": "gpt_neox")"), "(parallel blocks)"},
      {"Falcon", put(kLlama31Config, R"("model_type": "falcon")"), "(parallel blocks)"},
      {"Ministral", put(kLlama31Config, R"("model_type": "ministral")"),
       "'ministral' is refused: it is not supported yet; accepted are llama, mistral, ministral3, "
       "phi3, qwen2, qwen3, smollm3, granite, seed_oss, gemma, gemma2, gemma3_text, olmo2, olmo3, "
       "glm4, exaone4, hunyuan_v1_dense, qwen3_5_text, mixtral, qwen3_moe, "
       "qwen2_moe, glm4_moe, gpt_oss, qwen3_5_moe_text, alone or as the text part of gemma3, "
       "llava, mistral3, qwen3_5, qwen3_5_moe"},
      {"UnknownType", put(kLlama31Config, R"("model_type": "nonesuch")"),
       "'nonesuch' is refused: this architecture is not known"},
      {"OtherHead", put(kLlama31Config, R"("architectures": ["LlamaForSequenceClassification"])"),
       R"(["LlamaForSequenceClassification"] is refused)"},
  };
}

INSTANTIATE_TEST_SUITE_P(Family, BadConfigs, testing::ValuesIn(bad_families()), case_name_of);

}  // namespace
}  // namespace dotresize
