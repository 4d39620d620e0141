#include "job/model/units/unit.h"

namespace dotresize {
namespace {

std::vector<int64_t> sizes_of_features(const LayerSpec& layer, int64_t round_to) {
  const int64_t all = layer.mlp.intermediate_size;
  std::vector<int64_t> sizes = {all};
  for (int64_t size = (all - 1) / round_to * round_to; size >= round_to; size -= round_to) {
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace

constinit const Unit kFeatures{
    .name = "features",
    .of_attentions = false,
    .key = "intermediate_sizes",
    .parts = "features",
    .size = [](const LayerSpec& layer) { return layer.mlp.intermediate_size; },
    .set_size = [](int64_t size, LayerSpec& layer) { layer.mlp.intermediate_size = size; },
    .sizes = sizes_of_features};

}  // namespace dotresize
