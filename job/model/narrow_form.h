#pragma once

#include "job/model/config_fields.h"
#include "job/model/model_config.h"

namespace dotresize {

/// Reads the form of a compressed model, and the sizes of its layers, from config.json. A dense
/// model gets junctions of full width. `config` must have the source's layers already. Throws
/// InputError for sizes out of range and contradictory values.
void read_narrow_form(const ConfigFields& fields, ModelConfig& config);

}  // namespace dotresize
