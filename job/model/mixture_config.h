#pragma once

#include <optional>

#include "job/model/config_fields.h"
#include "job/model/model_config.h"
#include "job/model/model_family.h"

namespace dotresize {

/// The mixture of experts of a model of such a family; nothing if the family has none. `config`
/// has its sizes already. Throws InputError for missing keys and for values that contradict each
/// other.
std::optional<MixtureConfig> read_mixture_config(const ConfigFields& fields,
                                                 const ModelFamily& family,
                                                 const ModelConfig& config);

}  // namespace dotresize
