#include "base/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>
#include <system_error>

#include "base/output_file.h"
#include "base/unique_fd.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// A name in the same directory that no other process picks.
fs::path temporary_name(fs::path path) {
  std::random_device random;
  path += ".tmp-";
  path += std::to_string(random());
  path += std::to_string(random());
  return path;
}

/// Removes the file on the way out unless it has been renamed.
struct Removal {
  const fs::path& path;
  bool armed = true;
  ~Removal() {
    if (armed) {
      ::unlink(path.c_str());
    }
  }
};

}  // namespace

void write_file_atomically(const fs::path& path, std::string_view content, mode_t permissions) {
  const fs::path temporary = temporary_name(path);
  OutputFile file(temporary, OutputFile::Mode::kMustNotExist, permissions);
  Removal removal{temporary};
  file.write(content.data(), content.size(), 0);
  file.close();
  fs::rename(temporary, path);
  removal.armed = false;
  sync_directory(path.parent_path());
}

void sync_directory(const fs::path& dir) {
  const fs::path name = dir.empty() ? "." : dir;
  const UniqueFd descriptor(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor || ::fsync(descriptor.get()) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            name.string() + ": cannot flush the directory");
  }
}

}  // namespace dotresize
