#pragma once

#include <optional>

#include "job/model/config_fields.h"
#include "job/model/model_config.h"
#include "job/model/model_family.h"

namespace dotresize {

// Sections of a config.json that have rules of their own.

/// Fills `model.rotary` from the rotary settings of a config.json in either dialect:
/// `rope_parameters` (transformers 5), or `rope_theta`, `rope_scaling` and `partial_rotary_factor`
/// (transformers 4). Both may be present if they agree. Absent values get transformers 5's
/// defaults. `model` must have its head_dim and max_position_embeddings already. Throws InputError
/// for unsupported types, values out of range and contradictory values.
void read_rotary_config(const ConfigFields& config, const ModelFamily& family, ModelConfig& model);

/// Reads the mixture of experts of a model; nullopt if its family has none. `config` must have its
/// sizes already. Throws InputError for missing keys and contradictory values.
std::optional<MixtureConfig> read_mixture_config(const ConfigFields& fields,
                                                 const ModelFamily& family,
                                                 const ModelConfig& config);

}  // namespace dotresize
