#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "job/checkpoint/model_description.h"
#include "worker/python/python_helper.h"

namespace dotresize {

/// Returns the path without a slash at its end. Throws InputError unless something can be created
/// there: before the work instead of after it.
std::filesystem::path new_output(const std::filesystem::path& given);

/// Reads the model and prints its warnings, then becomes the program of these modules with the
/// arguments "MODEL OUT ARGUMENTS..." and the model's description. Throws InputError if the model
/// is refused.
[[noreturn]] void exec_model_program(const std::filesystem::path& model,
                                     const DescriptionRefusals& refusals,
                                     const std::vector<PythonModule>& modules,
                                     const std::filesystem::path& out,
                                     const std::vector<std::string>& arguments);

}  // namespace dotresize
