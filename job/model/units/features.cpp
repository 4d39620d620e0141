#include "job/model/units/unit.h"

namespace dotresize {
constinit const Unit kFeatures{
    .name = "features",
    .of_attentions = false,
    .key = "intermediate_sizes",
    .report = {.left = "width", .source = "intermediate_size", .all = "features"},
    .parts = "features",
    .in_model = [](const ModelConfig&) { return true; },
    .size = [](const LayerSpec& layer) { return layer.mlp.intermediate_size; },
    .set_size = [](int64_t size, LayerSpec& layer) { layer.mlp.intermediate_size = size; },
    .least = [](const LayerSpec& layer) -> int64_t { return layer.mlp.bias ? 1 : 0; },
    .sizes =
        [](const LayerSpec& layer, int64_t round_to) {
          return sizes_in_steps(layer.mlp.intermediate_size, round_to);
        }};

}  // namespace dotresize
