#include "server/partial_output.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <system_error>

#include "base/partial_path.h"
#include "server/files.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

void remove_unless_locked(const fs::path& partial) {
  const UniqueFd held = try_lock_directory(partial);
  if (held) fs::remove_all(partial);
}

}  // namespace

void remove_partial_output(const std::string& output_path) {
  try {
    remove_unless_locked(partial_path(output_path));
  } catch (const std::system_error& error) {
    spdlog::error("cannot remove the partial output of {}: {}", output_path, error.what());
  }
}

}  // namespace dotresize
