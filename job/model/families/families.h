#pragma once

#include <string>
#include <string_view>

#include "job/model/families/model_family.h"

namespace dotresize {

// One architecture each, in the file of its name or of its kin.

extern const ModelFamily kLlama;
extern const ModelFamily kMistral;
extern const ModelFamily kPhi3;
extern const ModelFamily kQwen2;
extern const ModelFamily kQwen3;
extern const ModelFamily kSmolLM3;
extern const ModelFamily kGranite;
extern const ModelFamily kSeedOss;
extern const ModelFamily kGemma;
extern const ModelFamily kGemma2;
extern const ModelFamily kGemma3Text;
extern const ModelFamily kOlmo2;
extern const ModelFamily kOlmo3;
extern const ModelFamily kMinistral3;
extern const ModelFamily kGlm4;
extern const ModelFamily kExaone4;
extern const ModelFamily kHunyuanV1Dense;
extern const ModelFamily kQwen3_5Text;
extern const ModelFamily kMixtral;
extern const ModelFamily kQwen3Moe;
extern const ModelFamily kQwen2Moe;
extern const ModelFamily kGlm4Moe;
extern const ModelFamily kGptOss;
extern const ModelFamily kQwen3_5MoeText;

/// Returns null for an unsupported family.
const ModelFamily* find_family(std::string_view model_type);

/// Model type of the family whose models can be stated as those of `twin`; empty if there is none.
std::string_view family_with_twin(std::string_view twin);

/// Error text: the reason why a model_type is refused, and the accepted ones.
std::string reason_for_refusal(const std::string& model_type);

}  // namespace dotresize
