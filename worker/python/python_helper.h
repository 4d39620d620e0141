#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dotresize {

/// Runs one of the embedded Python programs (worker/python/embedded.h), `what` in error messages,
/// in $DOTRESIZE_PYTHON, else the environment of a source tree (build/bin/../../.venv), else the
/// python3 of the PATH. Throws InputError with the program's last line of stderr if it ends with
/// kExitBadData, std::runtime_error if it fails in another way.
void run_python_helper(const std::string& what, std::string_view source,
                       const std::vector<std::string>& arguments);

}  // namespace dotresize
