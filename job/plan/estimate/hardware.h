#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "dotresize/v1/hardware.pb.h"
#include "job/plan/resolve/resolve_job.h"

namespace dotresize {

/// Reads a hardware file (YAML or JSON): proto/dotresize/v1/hardware.proto. Throws InputError with
/// line and key for unknown keys, for rates that are not positive and finite, for missing rates
/// that the device needs, and for rates that the device does not have.
v1::Hardware read_hardware(const std::filesystem::path& path);

/// Version of read_hardware for text; `origin` names it in errors.
v1::Hardware parse_hardware(const std::string& text, const std::string& origin);

// Files of examples/hardware/, embedded when the program is built.
std::string_view cpu_yaml();
std::string_view v100x8_yaml();
std::string_view a100x8_yaml();
std::string_view h100x1_yaml();

/// Rates of the machine in examples/hardware/ that is most like the device; for a GPU, one of its
/// generation. They tell the share of a job that each of its steps takes, not its seconds.
v1::Hardware reference_hardware(const DeviceFacts& facts);

/// Returns the facts that resolve_job assumes if `ranks` ranks run on the hardware.
LaunchFacts launch_facts(const v1::Hardware& hardware, int ranks);

/// Rates that one rank of a job gets of the hardware while the others are as busy. Units per
/// second: bytes; operations for gemm, attention, eigen, svd and qr; pairs for l1_cost.
struct RankRates {
  double compute_gemm = 0.0;  ///< rate in the compute dtype
  double fold_gemm = 0.0;
  double float32_gemm = 0.0;
  double float64_gemm = 0.0;
  double attention = 0.0;
  double memory = 0.0;
  double l1_cost = 0.0;
  double eigen = 0.0;
  double svd = 0.0;
  double qr = 0.0;
  double sinkhorn = 0.0;
  double host_memory = 0.0;
  double to_device = 0.0;  ///< infinite on the CPU
  double link = 0.0;       ///< infinite for one rank
  double disk_read = 0.0;
  double disk_write = 0.0;
  double cache_bytes = 0.0;  ///< bytes, not a rate: file cache of a host, for all its ranks
  double hash = 0.0;
  int ranks_per_host = 1;
  /// Speedup of a rank while the others wait: above 1 on a CPU with more ranks than cores.
  double alone = 1.0;
  bool cuda = false;
};

/// Returns the rates of a rank. Throws InputError naming the key if the file lacks one that this
/// job needs, or if the job and the file are for different devices.
RankRates rank_rates(const v1::Hardware& hardware, const ResolvedJob& job);

}  // namespace dotresize
