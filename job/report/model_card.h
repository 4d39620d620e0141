#pragma once

#include <string>

#include "job/model/model_config.h"
#include "job/report/report.h"

namespace dotresize {

/// The model card (README.md of the output): what it is, how to load it, the numbers.
std::string model_card(const Report& report, const ModelConfig& config);

}  // namespace dotresize
