#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/model_config.h"
#include "job/resolved_job.h"

namespace dotresize {

/// config.json of the compressed model: the source's keys, sorted, with those changed that differ.
/// Rotary settings and dtype are written in the dialects of transformers 4 and 5. `source` is what
/// `source_config_json` says. Ends with a newline.
std::string output_config_json(const std::string& source_config_json, const ModelConfig& source,
                               const std::vector<int64_t>& junction_widths, Dtype output_dtype);

}  // namespace dotresize
