#include "worker/cuda/nvrtc.h"

#include <nvrtc.h>

#include <algorithm>
#include <stdexcept>

namespace dotresize {
namespace {

std::string target(int capability) { return "sm_" + std::to_string(capability); }

[[noreturn]] void fail(const CudaProgram& program, int capability, const std::string& what) {
  throw std::runtime_error("CUDA program " + program.name + " for " + target(capability) + ": " +
                           what);
}

/// Destroys the program at the end of its life.
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

void check_capability(const CudaProgram& program, int capability) {
  const std::vector<int> known = supported_capabilities();
  if (std::find(known.begin(), known.end(), capability) != known.end()) return;
  std::string names;
  for (const int one : known) names.append(" ").append(target(one));
  fail(program, capability, "NVRTC " + nvrtc_version() + " compiles for" + names + " only");
}

}  // namespace

CompiledProgram compile_cuda(const CudaProgram& program, int capability) {
  check_capability(program, capability);
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

}  // namespace dotresize
