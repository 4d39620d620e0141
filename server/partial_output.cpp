#include "server/partial_output.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <system_error>

#include "server/files.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

fs::path partial_of(const std::string& output_path) {
  fs::path output(output_path);
  if (!output.has_filename()) output = output.parent_path();  // "out/" is "out"
  output += ".partial";
  return output;
}

void remove_unless_locked(const fs::path& partial) {
  const UniqueFd held = try_lock_directory(partial);
  if (held) fs::remove_all(partial);
}

}  // namespace

void remove_partial_output(const std::string& output_path) {
  try {
    remove_unless_locked(partial_of(output_path));
  } catch (const std::system_error& error) {
    spdlog::error("leftovers of {} stay: {}", output_path, error.what());
  }
}

}  // namespace dotresize
