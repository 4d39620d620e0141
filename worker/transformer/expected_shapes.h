#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

/// Every tensor that the checkpoint of such a model must hold, dense or compressed, and its shape.
std::map<std::string, std::vector<int64_t>> expected_shapes(const ModelConfig& config);

}  // namespace dotresize
