#include "worker/cuda/nvrtc.h"

#include <nvrtc.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <type_traits>

#include "base/files/cache_files.h"
#include "base/files/durable_file.h"
#include "base/files/file_changes.h"
#include "base/files/input_file.h"
#include "base/process/environment.h"
#include "base/text/sha256.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kMaxCubinBytes = uint64_t{64} << 20;

}  // namespace

int architecture_for(int capability) {
  // Modules that combine GPU and CPU (Jetson, Drive). Other GPUs cannot run their code.
  static constexpr std::array<int, 6> kIntegrated = {53, 62, 72, 87, 101, 110};
  int count = 0;
  std::vector<int> known;
  if (nvrtcGetNumSupportedArchs(&count) == NVRTC_SUCCESS) {
    known.resize(static_cast<size_t>(count));
    if (nvrtcGetSupportedArchs(known.data()) != NVRTC_SUCCESS) known.clear();
  }
  int best = 0;
  for (const int one : known) {
    if (one == capability) return one;
    const bool integrated = std::ranges::find(kIntegrated, one) != kIntegrated.end();
    if (one / 10 == capability / 10 && one < capability && !integrated) best = std::max(best, one);
  }
  if (best > 0) return best;
  std::string names;
  for (const int one : known) names.append(" sm_").append(std::to_string(one));
  throw std::runtime_error("NVRTC " + nvrtc_version() + " cannot compile for sm_" +
                           std::to_string(capability) + ", only for" + names);
}

CompiledProgram compile_cuda(const CudaProgram& program, int capability) {
  const std::string target = "sm_" + std::to_string(capability);
  const auto check = [&](nvrtcResult result, const std::string& log = "") {
    if (result == NVRTC_SUCCESS) return;
    throw std::runtime_error("CUDA program " + program.name + " for " + target + ": " +
                             nvrtcGetErrorString(result) + log);
  };
  std::vector<std::string> texts;
  for (const auto& header : program.headers) texts.emplace_back(header.second);
  std::vector<const char*> sources;
  std::vector<const char*> names;
  for (size_t i = 0; i < texts.size(); ++i) {
    sources.push_back(texts[i].c_str());
    names.push_back(program.headers[i].first.c_str());
  }
  nvrtcProgram handle = nullptr;
  check(nvrtcCreateProgram(&handle, std::string(program.source).c_str(), program.name.c_str(),
                           static_cast<int>(texts.size()), sources.data(), names.data()));
  const auto destroy = [](nvrtcProgram owned) { nvrtcDestroyProgram(&owned); };
  const std::unique_ptr<std::remove_pointer_t<nvrtcProgram>, decltype(destroy)> owner(handle,
                                                                                      destroy);
  std::vector<std::string> options = {"--gpu-architecture=" + target, "--std=c++17",
                                      "--ptxas-options=-v"};
  options.insert(options.end(), program.options.begin(), program.options.end());
  std::vector<const char*> arguments;
  arguments.reserve(options.size());
  for (const std::string& option : options) arguments.push_back(option.c_str());
  const nvrtcResult result =
      nvrtcCompileProgram(handle, static_cast<int>(arguments.size()), arguments.data());

  CompiledProgram compiled;
  size_t size = 0;
  check(nvrtcGetProgramLogSize(handle, &size));
  compiled.log.resize(size);
  check(nvrtcGetProgramLog(handle, compiled.log.data()));
  compiled.log = compiled.log.substr(0, compiled.log.find('\0'));
  check(result, "\n" + compiled.log);
  check(nvrtcGetCUBINSize(handle, &size));
  compiled.cubin.resize(size);
  check(nvrtcGetCUBIN(handle, compiled.cubin.data()));
  return compiled;
}

std::string nvrtc_version() {
  int major = 0;
  int minor = 0;
  nvrtcVersion(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor);
}

fs::path CubinCache::path_of(const CudaProgram& program, int capability) const {
  std::string key;
  // A part has its length before it, so that different lists of parts give different texts.
  const auto append = [&key](std::string_view part) {
    key += std::to_string(part.size()) + ":";
    key += part;
  };
  append(nvrtc_version());
  append(program.source);
  for (const auto& [name, text] : program.headers) {
    append(name);
    append(text);
  }
  for (const std::string& option : program.options) append(option);
  const std::string digest = sha256_of_bytes(key.data(), key.size()).substr(0, 32);
  return directory / (fs::path(program.name).stem().string() + "-sm_" + std::to_string(capability) +
                      "-" + digest + ".cubin");
}

std::string CubinCache::get(const CudaProgram& program, int capability) const {
  if (directory.empty()) return compile_cuda(program, capability).cubin;
  const fs::path path = path_of(program, capability);
  if (is_sealed(path, Confinement())) return read_whole_file(path, kMaxCubinBytes, Confinement());
  std::string cubin = compile_cuda(program, capability).cubin;
  try {
    files::create_directories(path.parent_path(), Confinement());
    write_file_atomically(path, cubin, 0644, Confinement());
    seal_file(path, Confinement());
  } catch (const std::system_error&) {
    // If the directory is not writable, the next process compiles again.
  }
  return cubin;
}

fs::path default_cubin_directory() {
  const fs::path cache = user_cache_dir();
  return cache.empty() ? cache : cache / "cuda";
}

CudaProgram l1_cost_program() { return {"l1_cost.cu", l1_cost_cu()}; }

CudaProgram removal_program() { return {"removal.cu", removal_cu()}; }

CudaProgram sinkhorn_program(int64_t columns) {
  constexpr int64_t kThreads = 512;  // must equal THREADS of sinkhorn.cu
  const int64_t per_thread = (columns + kThreads - 1) / kThreads;
  return {"sinkhorn.cu", sinkhorn_cu(), {}, {"-DCOLUMNS_PER_THREAD=" + std::to_string(per_thread)}};
}

}  // namespace dotresize
