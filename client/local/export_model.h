#pragma once

#include <filesystem>
#include <string>

namespace dotresize {

inline constexpr char kGguf[] = "gguf";
inline constexpr char kNemotronNas[] = "nemotron-nas";

struct ExportRequest {
  std::filesystem::path model;
  std::string format;          ///< kGguf or kNemotronNas
  std::string type;            ///< dtype of a gguf's matrices; empty: f16
  std::filesystem::path file;  ///< output; empty: one in the working directory, named for the model
  bool json = false;           ///< prints JSON
};

/// Reads the model, and becomes the program that writes it in the other format. Throws InputError
/// if the model is refused, or if nothing can be written there.
[[noreturn]] void export_model(ExportRequest request);

}  // namespace dotresize
