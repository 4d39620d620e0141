#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// Commands that write a model in another form.
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

struct VocabularyRequest {
  std::filesystem::path model;
  std::filesystem::path out;
  int64_t keep = 0;                ///< tokens that stay
  std::vector<std::string> texts;  ///< files that say which tokens are needed
  std::vector<std::string> check;  ///< files that the choice does not see
  bool json = false;               ///< prints JSON
};

/// Reads the model, and becomes the program that writes it with fewer tokens. Throws InputError if
/// the model is refused, or if nothing can be written there.
[[noreturn]] void shrink_vocabulary(const VocabularyRequest& request);

}  // namespace dotresize
