#pragma once

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

}  // namespace dotresize
