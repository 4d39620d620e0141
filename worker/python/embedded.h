#pragma once

#include <string_view>

namespace dotresize {

// Python sources of this folder, byte for byte as they were when the program was built.

/// configuration_dotresize.py: goes into every output directory.
std::string_view configuration_py();

/// modeling_dotresize.py: goes into every output directory.
std::string_view modeling_py();

/// run_in_transformers.py: run as `PYTHON -c SOURCE MODEL_DIR OUT.json OPTIONS...`. Exit codes as
/// tokenize_text.py.
std::string_view run_in_transformers_py();

/// tokenize_text.py: run as `PYTHON -c SOURCE MODEL_DIR OUT.safetensors TEXT_FILE...`. Exit code 65
/// if the input is at fault; its last line of stderr says why.
std::string_view tokenize_text_py();

}  // namespace dotresize
