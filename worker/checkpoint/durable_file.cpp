#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <random>
#include <stdexcept>
#include <system_error>

#include "worker/checkpoint/input_file.h"
#include "worker/checkpoint/output_file.h"
#include "worker/checkpoint/writer.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kHashBlockBytes = 1 << 20;

std::string hex(const unsigned char* bytes, size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 0xF];
  }
  return text;
}

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

void write_file_atomically(const fs::path& path, const std::string& content) {
  const fs::path temporary = temporary_name(path);
  OutputFile file(temporary, OutputFile::Mode::kMustNotExist);
  Removal removal{temporary};
  file.write(content.data(), content.size(), 0);
  file.close();
  fs::rename(temporary, path);
  removal.armed = false;
  sync_directory(path.parent_path());
}

void sync_directory(const fs::path& dir) {
  const fs::path name = dir.empty() ? "." : dir;
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  if (!synced) {
    throw std::system_error(error, std::generic_category(),
                            name.string() + ": cannot flush the directory");
  }
}

std::string sha256_of_file(const fs::path& path) {
  const InputFile file(path.string());
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  bool ok = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  std::string block(std::min(kHashBlockBytes, file.size()), '\0');
  for (uint64_t offset = 0; ok && offset < file.size(); offset += block.size()) {
    block.resize(std::min(kHashBlockBytes, file.size() - offset));
    file.read(block.data(), block.size(), offset);
    ok = EVP_DigestUpdate(context.get(), block.data(), block.size()) == 1;
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (!ok || EVP_DigestFinal_ex(context.get(), digest, &size) != 1) {
    throw std::runtime_error(path.string() + ": OpenSSL cannot compute a SHA-256");
  }
  return hex(digest, size);
}

std::string sha256_of_bytes(const void* data, size_t size) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  if (EVP_Digest(data, size, digest, &length, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("OpenSSL cannot compute a SHA-256");
  }
  return hex(digest, length);
}

}  // namespace dotresize
