#include "base/files/scratch_directory.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace dotresize {

ScratchDirectory::ScratchDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "dotresize-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error(name + ": " + std::strerror(errno));
  }
  path_ = name;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code left_behind;  // a leftover temporary file is harmless
  std::filesystem::remove_all(path_, left_behind);
}

}  // namespace dotresize
