#include "server/partial_output.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <system_error>

#include "server/files.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

fs::path companion(const std::string& output_path, const char* suffix) {
  fs::path output(output_path);
  if (!output.has_filename()) output = output.parent_path();  // "out/" is "out"
  output += suffix;
  return output;
}

fs::file_type type_of(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type();
}

void remove_companions(const fs::path& partial, const fs::path& lock) {
  UniqueFd held;
  if (type_of(lock) == fs::file_type::regular) {
    held = try_lock_file(lock);
    if (!held) return;
  }
  if (type_of(partial) == fs::file_type::directory) fs::remove_all(partial);
  if (held) fs::remove(lock);
}

}  // namespace

void remove_partial_output(const std::string& output_path) {
  try {
    remove_companions(companion(output_path, ".partial"), companion(output_path, ".lock"));
  } catch (const std::system_error& error) {
    spdlog::error("leftovers of {} stay: {}", output_path, error.what());
  }
}

}  // namespace dotresize
