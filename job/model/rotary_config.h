#pragma once

#include "job/model/config_fields.h"
#include "job/model/model_config.h"
#include "job/model/model_family.h"

namespace dotresize {

/// Fills `model.rotary` from the rotary settings of a config.json in either dialect:
/// `rope_parameters` (transformers 5), or `rope_theta`, `rope_scaling` and `partial_rotary_factor`
/// (transformers 4). Both may be there if they agree. What is absent takes the values that
/// transformers 5 gives it. `model` has its head_dim and max_position_embeddings already. Throws
/// InputError for a type that is not supported, values out of range and values that contradict each
/// other.
void read_rotary_config(const ConfigFields& config, const ModelFamily& family, ModelConfig& model);

}  // namespace dotresize
