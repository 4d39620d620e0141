#include "job/model/families/families.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "job/model/wrappers.h"

namespace dotresize {
namespace {

constexpr std::array kFamilies = {
    &kLlama,   &kMistral,  &kMinistral3, &kPhi3,    &kQwen2,          &kQwen3,
    &kSmolLM3, &kGranite,  &kSeedOss,    &kGemma,   &kGemma2,         &kGemma3Text,
    &kOlmo2,   &kOlmo3,    &kGlm4,       &kExaone4, &kHunyuanV1Dense, &kQwen3_5Text,
    &kMixtral, &kQwen3Moe, &kQwen2Moe,   &kGlm4Moe, &kGptOss,         &kQwen3_5MoeText};

constexpr std::string_view kLayerNorm =
    "it uses LayerNorm, whose mean and bias cannot be folded into the neighbouring matrices";
constexpr std::string_view kParallel =
    "its attention and MLP read the same residual stream side by side (parallel blocks), which "
    "the junctions do not describe";
constexpr std::string_view kNotYet = "it is not supported yet";

struct Refusal {
  std::string_view model_type;
  std::string_view reason;
};

constexpr Refusal kRefusals[] = {
    {"gpt2", kLayerNorm},     {"opt", kLayerNorm},        {"bloom", kLayerNorm},
    {"mpt", kLayerNorm},      {"starcoder2", kLayerNorm}, {"gpt_bigcode", kLayerNorm},
    {"stablelm", kLayerNorm}, {"gptj", kParallel},        {"gpt_neox", kParallel},
    {"phi", kParallel},       {"falcon", kParallel},      {"cohere", kParallel},
    {"cohere2", kParallel},   {"ministral", kNotYet},     {"llama4", kNotYet},
};

}  // namespace

const ModelFamily* find_family(std::string_view model_type) {
  const auto found = std::ranges::find_if(
      kFamilies, [&](const ModelFamily* family) { return family->model_type == model_type; });
  return found == kFamilies.end() ? nullptr : *found;
}

std::string_view family_with_twin(std::string_view twin) {
  const auto found = std::ranges::find_if(kFamilies, [&](const ModelFamily* family) {
    return family->twin && family->twin->model_type == twin;
  });
  return found == kFamilies.end() ? std::string_view() : (*found)->model_type;
}

std::string reason_for_refusal(const std::string& model_type) {
  const auto* const found = std::ranges::find(kRefusals, model_type, &Refusal::model_type);
  const std::string_view reason =
      found == std::end(kRefusals) ? "this architecture is not known" : found->reason;
  std::string accepted;
  for (const ModelFamily* family : kFamilies) {
    accepted += (accepted.empty() ? "" : ", ") + std::string(family->model_type);
  }
  return "'" + model_type + "' is refused: " + std::string(reason) + "; accepted are " + accepted +
         ", alone or as the text part of " + accepted_wrappers();
}

std::string layer_sizes_architecture(const ModelFamily& family) {
  return "DotResize" + std::string(family.architecture);
}

std::string layer_sizes_stem(const ModelFamily& family) {
  if (!family.stem.empty()) return "DotResize" + std::string(family.stem);
  const std::string model = layer_sizes_architecture(family);
  return model.substr(0, model.rfind("ForCausalLM"));
}

}  // namespace dotresize
