#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/plan/resolved_job.h"

namespace dotresize {

struct JunctionReport {
  std::string name;    ///< "embed", "layers.3.attention", "layers.3.mlp"
  int64_t width = 0;   ///< k
  bool mapped = true;  ///< false: kept at full width, the rest is absent
  int64_t effective_rank = 0;
  double retained_energy = 0.0;  ///< tr(Mᵀ G M) / tr(G)
  std::optional<int64_t> sinkhorn_iterations;
  std::optional<double> sinkhorn_violation;
  std::optional<bool> sinkhorn_converged;
  std::optional<double> qr_condition;    ///< 2-norm condition of R
  std::optional<Dtype> cost_dtype = {};  ///< of the differences in its costs: float32 or float16
  /// Of costs in float16, on a sample, where they were tried.
  std::optional<double> cost_error = {};
};

struct ModelReport {
  int64_t parameters = 0;
  int64_t bytes = 0;
  std::optional<double> perplexity;
};

/// The l1 costs that a rank has computed. A pair is two channels of one token: n tokens of width d
/// have n·d²/2.
struct CostReport {
  double pairs = 0.0;
  double seconds = 0.0;            ///< in the phase "cost"
  double limit_pairs_per_s = 0.0;  ///< that the kernel cannot exceed on the rank's device

  double pairs_per_s() const { return pairs / seconds; }
  double share_of_limit() const { return pairs_per_s() / limit_pairs_per_s; }
};

struct RankReport {
  int rank = 0;
  std::string host;
  int64_t first_sublayer = 0;
  int64_t end_sublayer = 0;
  std::map<std::string, double> seconds;  ///< wall time by phase
  int64_t peak_memory_bytes = 0;          ///< high-water mark of the resident set
  std::string gpu = {};                   ///< "NVIDIA H100 80GB HBM3 (sm_90)"; empty on the CPU
  std::optional<int64_t> peak_device_memory_bytes = {};  ///< CudaModule; on a GPU
  std::optional<CostReport> cost = {};                   ///< where the method has costs
};

/// `dotresize/report.json` (docs/output.md). Schema version 1: fields are added, never changed.
struct Report {
  std::string tool_version;
  ResolvedJob job;
  std::vector<JunctionReport> junctions;
  ModelReport dense;
  ModelReport compressed;
  std::vector<RankReport> ranks;
  double wall_time_s = 0.0;
  int64_t calibration_tokens = 0;
  double calibration_s = 0.0;                       ///< wall time of the phase `calibrate`
  int64_t evaluation_tokens = 0;                    ///< predicted tokens
  std::map<std::string, std::string> fingerprints;  ///< sha256 by input: model files, tokens
  std::vector<std::string> warnings;

  /// Calibration tokens by the wall time from the first one read to the last junction folded.
  double tokens_per_second() const {
    return static_cast<double>(calibration_tokens) / calibration_s;
  }
};

std::string report_to_json(const Report& report);

/// What others than the job itself need of a report. Throws InputError for a malformed file.
struct ReportSummary {
  std::string name;
  std::string method;
  int64_t width = 0;
  ModelReport dense;
  ModelReport compressed;
  double wall_time_s = 0.0;
  std::string compute_dtype;                        ///< of the perplexities
  std::optional<int64_t> evaluation_seqlen;         ///< tokens per window
  std::map<std::string, std::string> fingerprints;  ///< as in Report
};
ReportSummary read_report_summary(const std::filesystem::path& model_dir);

/// The model card (README.md of the output): what it is, how to load it, the numbers.
std::string model_card(const Report& report, const ModelConfig& config);

}  // namespace dotresize
