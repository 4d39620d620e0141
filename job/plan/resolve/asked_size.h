#pragma once

#include <optional>

#include "dotresize/v1/job.pb.h"
#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// Returns `method.size`, or the size that `method.bytes` or `method.speed` asks for: net bytes
/// over those of the dense model. `output`: dtypes of the output, which has the matrices of
/// `config` as far as they are kept. Throws InputError naming the key for bytes that are not fewer
/// than the dense model's, for a speed that no cut of the layers gives, and for the speed of a
/// mixture of experts. Must not be called for a job without any of these keys.
double asked_size(const v1::Method& method, const ModelConfig& config, const StoredDtypes& output);

/// Returns the key that asks for a size, and its value.
AskedSize asked_by(const v1::Method& method);

/// Returns the speed of a model with the fraction `size` of the dense bytes that loses entries of
/// matrices alone, as in asked_size(). Nothing for a mixture of experts: it depends on which are
/// cut.
std::optional<double> speed_at_size(double size, const ModelConfig& config,
                                    const StoredDtypes& output);

}  // namespace dotresize
