#pragma once

#include <string>

#include "job/model/model_config.h"
#include "job/report/report.h"

namespace dotresize {

/// Renders the model card (README.md of the output): description, loading instructions, numbers.
std::string model_card(const Report& report, const ModelConfig& config);

}  // namespace dotresize
