#pragma once

#include "job/config_fields.h"
#include "job/model_config.h"

namespace dotresize {

/// The rotary settings of a config.json in either dialect: `rope_parameters` (transformers 5), or
/// `rope_theta`, `rope_scaling` and `partial_rotary_factor` (transformers 4). Both may be there if
/// they agree. Throws InputError for a type other than default and llama3, and for values that
/// contradict each other.
RotaryConfig read_rotary_config(const ConfigFields& config, double theta_if_absent);

}  // namespace dotresize
