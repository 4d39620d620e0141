#pragma once

#include <optional>

#include "job/model/config_fields.h"
#include "job/model/model_config.h"

namespace dotresize {

/// Reads `quantization_config` (or `compression_config`). Absent: the weights are not quantised.
/// Throws InputError for every form that is not read, by its name, with the command that
/// dequantises such a model.
std::optional<Quantisation> read_quantisation(const ConfigFields& fields);

}  // namespace dotresize
