#include "job/model/units/unit.h"

namespace dotresize {
constinit const Unit kFeatures{
    .name = "features",
    .of_attentions = false,
    .key = "intermediate_sizes",
    .parts = "features",
    .size = [](const LayerSpec& layer) { return layer.mlp.intermediate_size; },
    .set_size = [](int64_t size, LayerSpec& layer) { layer.mlp.intermediate_size = size; },
    .least = [](const LayerSpec& layer) -> int64_t { return layer.mlp.bias ? 1 : 0; },
    .sizes =
        [](const LayerSpec& layer, int64_t round_to) {
          return sizes_in_steps(layer.mlp.intermediate_size, round_to);
        }};

}  // namespace dotresize
