#include "base/text/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "base/files/input_file.h"
#include "base/process/work_budget.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr char kOpenSslFault[] = "OpenSSL cannot compute a SHA-256";
constexpr size_t kHexDigits = 64;

}  // namespace

std::string sha256_of_bytes(const void* data, size_t size) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int length = 0;
  if (EVP_Digest(data, size, digest.data(), &length, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error(kOpenSslFault);
  }
  return hex_digits({reinterpret_cast<const char*>(digest.data()), length});
}

std::string sha256_of_file(const std::filesystem::path& path, const std::stop_token& stop) {
  return sha256_of_file(InputFile(path.string()), stop);
}

std::string sha256_of_file(const InputFile& file, const std::stop_token& stop) {
  constexpr uint64_t kBlockBytes = 1 << 20;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  bool ok = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  std::string block(std::min(kBlockBytes, file.size()), '\0');
  for (uint64_t offset = 0; ok && offset < file.size(); offset += block.size()) {
    if (stop.stop_requested()) throw std::runtime_error(file.path() + ": hashing was stopped");
    WorkBudget::check();
    block.resize(std::min(kBlockBytes, file.size() - offset));
    file.read(block.data(), block.size(), offset);
    ok = EVP_DigestUpdate(context.get(), block.data(), block.size()) == 1;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int length = 0;
  if (!ok || EVP_DigestFinal_ex(context.get(), digest.data(), &length) != 1) {
    throw std::runtime_error(kOpenSslFault);
  }
  return hex_digits({reinterpret_cast<const char*>(digest.data()), length});
}

bool stays_inside(const std::string& text) {
  const std::filesystem::path path = text;
  return !text.empty() && path.is_relative() && path.lexically_normal().string() == text &&
         *path.begin() != "." && *path.begin() != "..";
}

std::map<std::string, std::string> parse_sha256_sums(const std::string& text,
                                                     std::vector<std::string>& problems) {
  std::map<std::string, std::string> sums;
  std::istringstream lines(text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = std::string(kSumsFile) + ":" + std::to_string(++number) + ": ";
    if (line.find_first_not_of("0123456789abcdef") != kHexDigits ||
        line.compare(kHexDigits, 2, "  ") != 0) {
      problems.push_back(where + "not a SHA-256, two spaces and a path");
      continue;
    }
    const std::string path = line.substr(kHexDigits + 2);
    if (!stays_inside(path)) {
      problems.push_back(where + "path " + in_quotes(path) + " leads out of the directory");
    } else if (!sums.emplace(path, line.substr(0, kHexDigits)).second) {
      problems.push_back(where + "path " + in_quotes(path) + " appears twice");
    }
  }
  return sums;
}

}  // namespace dotresize
