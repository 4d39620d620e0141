#include "base/small_file.h"

#include <fstream>
#include <system_error>

#include "base/errors.h"

namespace dotresize {

std::string read_small_file(const std::filesystem::path& path, std::size_t max_bytes) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    throw InputError(path.string() + ": there is no such file");
  }
  if (error) throw InputError(path.string() + ": " + error.message());
  if (!fs::is_regular_file(status)) throw InputError(path.string() + ": is not a regular file");

  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(path.string() + ": cannot be opened for reading");
  // One byte more than allowed is asked for, so that a file that grows meanwhile is noticed too.
  std::string bytes(std::min<std::uintmax_t>(fs::file_size(path), max_bytes) + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.bad()) throw InputError(path.string() + ": cannot be read");
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  if (bytes.size() > max_bytes) {
    throw InputError(path.string() + ": is larger than " + std::to_string(max_bytes) +
                     " bytes, the most that is accepted");
  }
  return bytes;
}

}  // namespace dotresize
