#include "worker/kernels/cuda/cubin_cache.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// SHA-256, 64 hexadecimal digits.
std::string digest(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), bytes.data(), &size, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("SHA-256 is not available");
  }
  std::string digits;
  for (unsigned int i = 0; i < size; ++i) {
    std::array<char, 3> pair{};
    std::snprintf(pair.data(), pair.size(), "%02x", bytes[i]);
    digits += pair.data();
  }
  return digits;
}

/// A part with its length before it, so that no two lists of parts are one text.
void append(std::string& key, std::string_view part) {
  key += std::to_string(part.size()) + ":";
  key += part;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Through a file of this process alone. Does nothing where the directory cannot be written.
void write_whole(const fs::path& path, const std::string& bytes) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const fs::path own = path.string() + "." + std::to_string(::getpid());
  {
    std::ofstream file(own, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) {
      fs::remove(own, error);
      return;
    }
  }
  fs::rename(own, path, error);
  if (error) fs::remove(own, error);
}

}  // namespace

fs::path CubinCache::path_of(const CudaProgram& program, int capability) const {
  std::string key;
  append(key, nvrtc_version());
  append(key, program.source);
  for (const auto& [name, text] : program.headers) {
    append(key, name);
    append(key, text);
  }
  for (const std::string& option : program.options) append(key, option);
  return directory_ / (fs::path(program.name).stem().string() + "-sm_" +
                       std::to_string(capability) + "-" + digest(key).substr(0, 32) + ".cubin");
}

std::string CubinCache::get(const CudaProgram& program, int capability) const {
  if (directory_.empty()) return compile_cuda(program, capability).cubin;
  const fs::path path = path_of(program, capability);
  std::string cubin = read(path);
  if (cubin.empty()) {
    cubin = compile_cuda(program, capability).cubin;
    write_whole(path, cubin);
  }
  return cubin;
}

fs::path default_cubin_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return fs::path(cache) / "dotresize" / "cuda";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return fs::path(home) / ".cache" / "dotresize" / "cuda";
  }
  return {};
}

}  // namespace dotresize
