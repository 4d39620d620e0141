#include "job/model/families/model_family.h"

namespace dotresize {

std::string layer_sizes_architecture(const ModelFamily& family) {
  return "DotResize" + std::string(family.architecture);
}

std::string layer_sizes_stem(const ModelFamily& family) {
  if (!family.stem.empty()) return "DotResize" + std::string(family.stem);
  const std::string model = layer_sizes_architecture(family);
  return model.substr(0, model.rfind("ForCausalLM"));
}

}  // namespace dotresize
