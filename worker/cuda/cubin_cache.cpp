#include "worker/cuda/cubin_cache.h"

#include <fstream>
#include <iterator>
#include <system_error>

#include "base/durable_file.h"
#include "base/environment.h"
#include "base/sha256.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// A part with its length before it, so that no two lists of parts are one text.
void append(std::string& key, std::string_view part) {
  key += std::to_string(part.size()) + ":";
  key += part;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void keep(const fs::path& path, const std::string& bytes) {
  try {
    fs::create_directories(path.parent_path());
    write_file_atomically(path, bytes);
  } catch (const std::system_error&) {
    // A directory that cannot be written: the next process compiles again.
  }
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
  const std::string digest = sha256_of_bytes(key.data(), key.size()).substr(0, 32);
  return directory_ / (fs::path(program.name).stem().string() + "-sm_" +
                       std::to_string(capability) + "-" + digest + ".cubin");
}

std::string CubinCache::get(const CudaProgram& program, int capability) const {
  if (directory_.empty()) return compile_cuda(program, capability).cubin;
  const fs::path path = path_of(program, capability);
  std::string cubin = read(path);
  if (cubin.empty()) {
    cubin = compile_cuda(program, capability).cubin;
    keep(path, cubin);
  }
  return cubin;
}

fs::path default_cubin_directory() {
  const fs::path cache = user_cache_dir();
  return cache.empty() ? cache : cache / "cuda";
}

}  // namespace dotresize
