#pragma once

#include <optional>

#include "job/model/config_fields.h"
#include "job/model/model_config.h"
#include "job/model/model_family.h"

namespace dotresize {

/// Reads the mixture of experts of a model; nullopt if its family has none. `config` must have its
/// sizes already. Throws InputError for missing keys and contradictory values.
std::optional<MixtureConfig> read_mixture_config(const ConfigFields& fields,
                                                 const ModelFamily& family,
                                                 const ModelConfig& config);

}  // namespace dotresize
