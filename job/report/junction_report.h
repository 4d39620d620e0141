#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "job/model/dtype.h"

namespace dotresize {

/// What a report says of one junction.
struct JunctionReport {
  std::string name;    ///< "embed", "layers.3.attention", "layers.3.mlp"
  int64_t width = 0;   ///< k
  bool mapped = true;  ///< false: kept at full width, the rest is absent
  int64_t effective_rank = 0;
  double retained_energy = 0.0;  ///< tr(Mᵀ G M) / tr(G)
  // Methods with transport only:
  std::optional<int64_t> sinkhorn_iterations;
  std::optional<double> sinkhorn_violation;
  std::optional<bool> sinkhorn_converged;
  std::optional<double> qr_condition;    ///< 2-norm condition of R
  std::optional<Dtype> cost_dtype = {};  ///< of the differences in its costs: float32 or float16
  /// Of costs in float16, on a sample, if they were tried.
  std::optional<double> cost_error = {};
};

/// An entry of `junctions` in report.json; also how ranks tell rank 0 of theirs.
nlohmann::json to_json(const JunctionReport& junction);
/// Throws nlohmann::json::exception if `object` is no such entry.
JunctionReport junction_report_from_json(const nlohmann::json& object);

}  // namespace dotresize
