#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace dotresize {

/// The l1 costs that a rank has computed. A pair is two channels of one token: n tokens of width d
/// have n·d²/2.
struct CostReport {
  double pairs = 0.0;
  double seconds = 0.0;  ///< in the phase "cost"
  /// What the kernel cannot exceed on the rank's GPU; absent on the CPU, whose limit only a
  /// benchmark can tell (bench/l1_cost_benchmark.cpp).
  std::optional<double> limit_pairs_per_s = {};

  double pairs_per_s() const { return pairs / seconds; }
};

/// What a report says of one rank.
struct RankReport {
  int rank = 0;
  std::string host;
  int64_t first_sublayer = 0;
  int64_t end_sublayer = 0;
  std::map<std::string, double> seconds;  ///< wall time by phase
  int64_t peak_memory_bytes = 0;          ///< high-water mark of the resident set
  std::string gpu = {};                   ///< "NVIDIA H100 80GB HBM3 (sm_90)"; empty on the CPU
  std::optional<int64_t> peak_device_memory_bytes = {};  ///< CudaModule; on a GPU
  std::optional<CostReport> cost = {};                   ///< if the method has costs
};

/// An entry of `ranks` in report.json; also how ranks tell rank 0 of themselves.
nlohmann::json to_json(const RankReport& rank);
/// Throws nlohmann::json::exception if `object` is no such entry.
RankReport rank_report_from_json(const nlohmann::json& object);

}  // namespace dotresize
