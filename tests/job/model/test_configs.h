#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "tests/temporary_directory.h"

namespace dotresize {

/// Published config.json files of the models, in the dialect of transformers 4.
extern const char* const kLlama31Config;
extern const char* const kMistralV03Config;
extern const char* const kPhi3MiniConfig;    ///< Phi-3-mini-4k
extern const char* const kPhi4MiniConfig;    ///< Phi-4-mini-instruct; but for the long factors
extern const char* const kQwen25Config;      ///< Qwen2.5-0.5B
extern const char* const kQwen3Config;       ///< Qwen3-0.6B
extern const char* const kMixtralConfig;     ///< Mixtral-8x7B-v0.1
extern const char* const kQwen3MoeConfig;    ///< Qwen3-30B-A3B
extern const char* const kQwen3CoderConfig;  ///< Qwen3-Coder-480B-A35B
extern const char* const kQwen2MoeConfig;    ///< Qwen1.5-MoE-A2.7B
extern const char* const kGlm4MoeConfig;     ///< GLM-4.5
extern const char* const kGptOssConfig;      ///< gpt-oss-20b
extern const char* const kGemma2Config;      ///< Gemma-2-2B
extern const char* const kOlmo3Config;       ///< OLMo-3-7B
extern const char* const kMinistral3Config;  ///< the text model of Ministral-3-3B
extern const char* const kDevstral2Config;   ///< Devstral-2-123B
extern const char* const kHunyuanConfig;     ///< Hy-MT2-7B
extern const char* const kQwen35Config;      ///< the text model of Qwen3.5-4B
extern const char* const kGemma3Config;      ///< Gemma-3-270M
extern const char* const kGemma3Of4BConfig;  ///< gemma-3-4b-it, a wrapper
extern const char* const kSmolLM3Config;     ///< SmolLM3-3B

/// Returns the schedule of this name.
const Schedule& schedule_named(std::string_view name);

ModelConfig llama31();
/// Returns a small llama: d 256, 6 layers, ff 768, 8 heads of 32, 2 key-value heads, vocabulary
/// 4096.
ModelConfig small_llama();
/// Returns a job for it: pca_dotresize to width 200, pipeline, 128 windows of 256 tokens.
ResolvedJob small_job(const ModelConfig& config, int ranks);

/// Returns the bytes of a token file of this shape, whose ids are all 0.
std::string token_file(const std::vector<int64_t>& shape);

/// Returns `text` with the first occurrence of `from` replaced. Throws std::invalid_argument if
/// there is none.
std::string with(const std::string& text, const std::string& from, const std::string& to);

}  // namespace dotresize
