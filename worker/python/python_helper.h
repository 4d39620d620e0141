#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dotresize {

// Python sources of this folder, byte for byte, embedded at build time.

/// configuration_dotresize.py and modeling_dotresize.py: go into custom outputs with maps.
std::string_view configuration_py();
std::string_view modeling_py();

/// modeling_layer_sizes.py: goes into custom outputs without maps.
std::string_view modeling_layer_sizes_py();

/// export_gguf.py, export_nemotron_nas.py and smaller_vocabulary.py, programs, and the modules that
/// they import: `MODEL_DIR OUT.gguf OPTIONS...` and `MODEL_DIR OUT_DIR OPTIONS...`. Their standard
/// input is a description of the model (job/checkpoint/model_description.h).
std::string_view export_gguf_py();
std::string_view export_nemotron_nas_py();
std::string_view exporting_py();
std::string_view gguf_families_py();
std::string_view gguf_tensors_py();
std::string_view gguf_tokenizer_py();
std::string_view model_directory_py();
std::string_view smaller_tokenizer_py();
std::string_view smaller_vocabulary_py();

/// remote_files.py, a program, and the modules that it imports.
std::string_view remote_stores_py();
std::string_view remote_cache_py();
std::string_view remote_files_py();

/// run_in_transformers.py: run as `PYTHON -I -c SOURCE MODEL_DIR OUT.json OPTIONS...`. Exit codes
/// as in tokenize_text.py.
std::string_view run_in_transformers_py();

/// tokenize_text.py, a program, and the module that it imports: run_tokenizer().
std::string_view text_files_py();
std::string_view tokenize_text_py();

/// Returns the command of one of the programs above, with $DOTRESIZE_PYTHON, or else the
/// environment of a source tree (build/bin/../../.venv) if this user can run it, or else the
/// python3 of the PATH.
std::vector<std::string> python_helper_command(std::string_view source,
                                               const std::vector<std::string>& arguments);

/// A module, by its name without ".py": of a program whose modules import each other by name, or of
/// an output's code.
struct PythonModule {
  std::string_view name;
  std::string_view source;
};
std::vector<std::string> python_helper_command(const std::vector<PythonModule>& modules,
                                               const std::vector<std::string>& arguments);

/// Code that goes into a custom output.
std::vector<PythonModule> output_code(bool has_maps);

/// Runs one of the programs above; error messages call it `what`. Throws InputError with the
/// program's last line of stderr if it ends with kExitBadData, ProgramMissing if Python or one of
/// its packages is missing, std::runtime_error if it fails in another way, or if it uses no
/// processor for `idle_limit` (run_child).
void run_python_helper(const std::string& what, std::string_view source,
                       const std::vector<std::string>& arguments,
                       std::optional<std::chrono::seconds> idle_limit = {});

/// Runs tokenize_text.py with arguments `[--memory BYTES] [--sha256 HASH...] -- MODEL_DIR
/// OUT.safetensors TEXT_FILE...`, or `--encode|--decode MODEL_DIR IN.json OUT.json`. Throws like
/// run_python_helper.
void run_tokenizer(const std::vector<std::string>& arguments,
                   std::optional<std::chrono::seconds> idle_limit = {});

/// Returns the Python that these programs run in, chosen as above.
std::string python_program();

/// Returns the reason why that Python cannot tokenise texts: Python, or a package that
/// tokenize_text_py() needs, is missing or broken. Empty if it can. Takes a second.
std::string python_fault();

}  // namespace dotresize
