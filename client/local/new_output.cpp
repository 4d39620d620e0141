#include "client/local/new_output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "base/errors.h"

namespace dotresize {

namespace fs = std::filesystem;

void require_creatable(const fs::path& out) {
  const auto refuse = [&](const std::string& why) { throw InputError(out.string() + ": " + why); };
  std::error_code error;
  const fs::file_type there = fs::symlink_status(out, error).type();
  if (there != fs::file_type::not_found && there != fs::file_type::none) {
    refuse("is there already; remove it, or name another FILE");
  }
  const fs::path folder = out.has_parent_path() ? out.parent_path() : fs::path(".");
  const fs::file_type parent = fs::status(folder, error).type();
  if (parent == fs::file_type::not_found) {
    refuse("its folder is not there; make it with mkdir -p " + folder.string() +
           ", or name another FILE");
  }
  if (parent != fs::file_type::none && parent != fs::file_type::directory) {
    refuse(folder.string() + " is a file, not a folder; name another FILE");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    refuse("cannot be created in its folder: " + std::string(std::strerror(errno)) +
           "; name a FILE in a folder that you may write to");
  }
}

}  // namespace dotresize
