#include <fmt/format.h>
#include <link.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/process/program.h"
#include "worker/calibration/reason.h"
#include "worker/commands/worker_program.h"
#include "worker/cuda/choose_device.h"
#include "worker/cuda/cuda_module.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

/// Returns the path of the loaded library with this file name; empty if it is not loaded.
std::string loaded_library(const std::string& name) {
  struct Search {
    const std::string& name;
    std::string found;
  } search{name, ""};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        if (fs::path(info->dlpi_name).filename() != wanted.name) return 0;
        wanted.found = info->dlpi_name;
        return 1;
      },
      &search);
  return search.found;
}

}  // namespace

int probe_command() {
  const Driver driver = ask_driver();
  CudaModule* module = nullptr;
  std::string module_fault;
  try {
    module = &open_cuda_module();
  } catch (const std::exception& error) {
    module_fault = reason_of(error);
  }
  std::optional<GpuCode> code;
  if (module != nullptr) code = gpu_code(module->libtorch_flags());
  OrderedJson gpus = OrderedJson::array();
  for (const DriverGpu& gpu : driver.gpus) {
    gpus.push_back({{"name", gpu.name},
                    {"capability", gpu.capability},
                    {"memory_bytes", gpu.memory_bytes},
                    {"fault", code ? why_no_code_for(gpu.capability, *code) : ""}});
  }
  const OrderedJson document = {
      {"version", kVersion},
      {"python", {{"program", python_program()}, {"fault", python_fault()}}},
      {"driver",
       {{"found", driver.found}, {"fault", driver.fault}, {"cuda_version", driver.cuda_version}}},
      {"gpus", std::move(gpus)},
      {"cuda_module",
       {{"path", cuda_module_path().string()},
        {"built", fs::exists(cuda_module_path())},
        {"fault", module_fault}}},
      {"nccl", loaded_library("libnccl.so.2")}};
  fmt::print("{}\n", document.dump(2, ' ', false, OrderedJson::error_handler_t::replace));
  return kExitOk;
}

}  // namespace dotresize
