#include "base/text/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "base/files/input_file.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr uint64_t kBlockBytes = 1 << 20;

class Sha256 {
 public:
  Sha256() { check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1); }

  void add(const void* data, size_t size) {
    check(EVP_DigestUpdate(context_.get(), data, size) == 1);
  }

  std::string digits() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned int size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1);
    return hex_digits({reinterpret_cast<const char*>(digest.data()), size});
  }

 private:
  static void check(bool ok) {
    if (!ok) throw std::runtime_error("OpenSSL cannot compute a SHA-256");
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free};
};

}  // namespace

std::string sha256_of_bytes(const void* data, size_t size) {
  Sha256 hash;
  hash.add(data, size);
  return hash.digits();
}

std::string sha256_of_file(const std::filesystem::path& path, const std::stop_token& stop) {
  return sha256_of_file(InputFile(path.string()), stop);
}

std::string sha256_of_file(const InputFile& file, const std::stop_token& stop) {
  Sha256 hash;
  std::string block(std::min(kBlockBytes, file.size()), '\0');
  for (uint64_t offset = 0; offset < file.size(); offset += block.size()) {
    if (stop.stop_requested()) throw std::runtime_error(file.path() + ": hashing was stopped");
    block.resize(std::min(kBlockBytes, file.size() - offset));
    file.read(block.data(), block.size(), offset);
    hash.add(block.data(), block.size());
  }
  return hash.digits();
}

}  // namespace dotresize
