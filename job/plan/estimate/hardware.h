#pragma once

#include <filesystem>
#include <string>

#include "dotresize/v1/hardware.pb.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// A hardware file (YAML or JSON): proto/dotresize/v1/hardware.proto. Throws InputError with line
/// and key for unknown keys, for rates that are not positive and finite, for those that the device
/// needs and that are missing, and for those that it does not have.
v1::Hardware read_hardware(const std::filesystem::path& path);

/// The same from a text; `origin` names it in errors.
v1::Hardware parse_hardware(const std::string& text, const std::string& origin);

/// What resolve_job takes the hardware for, if so many ranks run on it.
LaunchFacts launch_facts(const v1::Hardware& hardware, int ranks);

/// What one rank of a job gets of the hardware while the others are as busy. Per second: bytes, but
/// operations of gemm, attention, eigen, svd and qr, and pairs of l1_cost.
struct RankRates {
  double compute_gemm = 0.0;  ///< in the compute dtype
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
  double cache_bytes = 0.0;  ///< not a rate: of files, of all ranks of a host
  double hash = 0.0;
  int ranks_per_host = 1;
  /// How many times as fast a rank is while the others wait: on a CPU with more ranks than cores.
  double alone = 1.0;
  bool cuda = false;
};

/// Throws InputError naming the key that this job needs and that the file does not have, or that
/// the job and the file are of different devices.
RankRates rank_rates(const v1::Hardware& hardware, const ResolvedJob& job);

}  // namespace dotresize
