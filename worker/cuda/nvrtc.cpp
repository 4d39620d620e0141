#include "worker/cuda/nvrtc.h"

#include <nvrtc.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "base/files/durable_file.h"
#include "base/process/environment.h"
#include "base/text/sha256.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

std::string target(int capability) { return "sm_" + std::to_string(capability); }

[[noreturn]] void fail(const CudaProgram& program, int capability, const std::string& what) {
  throw std::runtime_error("CUDA program " + program.name + " for " + target(capability) + ": " +
                           what);
}

/// Owns an NVRTC program.
class NvrtcProgram {
 public:
  NvrtcProgram(const CudaProgram& program, int capability)
      : program_(program), capability_(capability) {
    std::vector<std::string> texts;
    for (const auto& header : program.headers) texts.emplace_back(header.second);
    std::vector<const char*> sources;
    std::vector<const char*> names;
    for (size_t i = 0; i < texts.size(); ++i) {
      sources.push_back(texts[i].c_str());
      names.push_back(program.headers[i].first.c_str());
    }
    check(nvrtcCreateProgram(&handle_, std::string(program.source).c_str(), program.name.c_str(),
                             static_cast<int>(texts.size()), sources.data(), names.data()));
  }
  ~NvrtcProgram() { nvrtcDestroyProgram(&handle_); }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;

  void compile(const std::vector<std::string>& options) {
    std::vector<const char*> arguments;
    arguments.reserve(options.size());
    for (const std::string& option : options) arguments.push_back(option.c_str());
    const nvrtcResult result =
        nvrtcCompileProgram(handle_, static_cast<int>(arguments.size()), arguments.data());
    if (result == NVRTC_SUCCESS) return;
    fail(program_, capability_, std::string(nvrtcGetErrorString(result)) + "\n" + log());
  }

  std::string log() const {
    size_t size = 0;
    check(nvrtcGetProgramLogSize(handle_, &size));
    std::string text(size, '\0');
    check(nvrtcGetProgramLog(handle_, text.data()));
    return text.substr(0, text.find('\0'));
  }

  std::string cubin() const {
    size_t size = 0;
    check(nvrtcGetCUBINSize(handle_, &size));
    std::string bytes(size, '\0');
    check(nvrtcGetCUBIN(handle_, bytes.data()));
    return bytes;
  }

 private:
  void check(nvrtcResult result) const {
    if (result != NVRTC_SUCCESS) fail(program_, capability_, nvrtcGetErrorString(result));
  }

  const CudaProgram& program_;
  int capability_;
  nvrtcProgram handle_ = nullptr;
};

std::vector<int> supported_capabilities() {
  int count = 0;
  if (nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS) return {};
  std::vector<int> capabilities(static_cast<size_t>(count));
  if (nvrtcGetSupportedArchs(capabilities.data()) != NVRTC_SUCCESS) return {};
  return capabilities;
}

/// True for modules that combine GPU and CPU (Jetson, Drive). Other GPUs cannot run their code.
bool is_integrated(int capability) {
  constexpr std::array<int, 6> kIntegrated = {53, 62, 72, 87, 101, 110};
  return std::ranges::find(kIntegrated, capability) != kIntegrated.end();
}

/// Appends a part with its length, so that different lists of parts give different texts.
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
    // If the directory is not writable, the next process compiles again.
  }
}

}  // namespace

int architecture_for(int capability) {
  const std::vector<int> known = supported_capabilities();
  int best = 0;
  for (const int one : known) {
    if (one == capability) return one;
    if (one / 10 == capability / 10 && one < capability && !is_integrated(one)) {
      best = std::max(best, one);
    }
  }
  if (best > 0) return best;
  std::string names;
  for (const int one : known) names.append(" ").append(target(one));
  throw std::runtime_error("NVRTC " + nvrtc_version() + " cannot compile for " +
                           target(capability) + ", only for" + names);
}

CompiledProgram compile_cuda(const CudaProgram& program, int capability) {
  NvrtcProgram compilation(program, capability);
  std::vector<std::string> options = {"--gpu-architecture=" + target(capability), "--std=c++17",
                                      "--ptxas-options=-v"};
  options.insert(options.end(), program.options.begin(), program.options.end());
  compilation.compile(options);
  return {compilation.cubin(), compilation.log()};
}

std::string nvrtc_version() {
  int major = 0;
  int minor = 0;
  nvrtcVersion(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor);
}

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
