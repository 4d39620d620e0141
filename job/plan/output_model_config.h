#pragma once

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// The model that the job makes of `source` with these widths: compressed, or with `map_sharing:
/// model` a dense one that is as wide as its map.
ModelConfig output_model_config(const ModelConfig& source, const ResolvedJob& job,
                                const JunctionWidths& widths);

}  // namespace dotresize
