#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "job/plan/allocate/joint_allocation.h"
#include "job/plan/net_size.h"
#include "job/plan/resolved_job.h"
#include "job/report/report_entries.h"

namespace dotresize {

namespace v1 {
class ModelSize;
}

struct ModelReport {
  int64_t parameters = 0;
  int64_t bytes = 0;
  std::optional<double> perplexity;
  /// Of the compressed model: KL(dense || compressed), the mean over the predicted tokens in
  /// nats...
  std::optional<double> kl = {};
  /// ... and the fraction of them of which both models hold the same token for the most likely one.
  std::optional<double> agreement = {};
};

/// `dotresize/report.json` (docs/output.md). Schema version 1: fields are added, never changed.
struct Report {
  std::string tool_version;
  ResolvedJob job;
  JunctionWidths widths;  ///< of the output
  std::vector<JunctionReport> junctions;
  std::vector<ShortcutReport> shortcuts;         ///< of an output that has them
  std::vector<MlpReport> mlps;                   ///< that were cut
  std::vector<AttentionReport> attentions = {};  ///< whose values may have been cut
  std::optional<Allocation> allocation;          ///< of `method.allocate`
  /// Of its output: KL(dense || compressed) in nats a token of windows that nothing was fitted to.
  std::optional<double> held_out_kl = {};
  std::optional<HealingReport> healing = {};  ///< of `heal`, unless it has no epochs
  int64_t healing_tokens = 0;                 ///< in its windows
  ModelReport dense;
  ModelReport compressed;
  std::vector<RankReport> ranks;
  double wall_time_s = 0.0;
  int64_t calibration_tokens = 0;
  double calibration_s = 0.0;                       ///< wall time of the phase `calibrate`
  int64_t evaluation_tokens = 0;                    ///< predicted tokens
  std::optional<int64_t> evaluation_seqlen;         ///< tokens per window, if there was one
  std::map<std::string, std::string> fingerprints;  ///< sha256 by input: model files, tokens
  std::vector<std::string> warnings;

  /// Calibration tokens by the wall time from the first one read to the last junction folded.
  double tokens_per_second() const {
    return static_cast<double>(calibration_tokens) / calibration_s;
  }
};

/// As the API has it.
v1::ModelSize to_message(const ModelReport& model);

/// Sizes of both models, as stored.
NetSize net_size(const Report& report);

/// What the sizes and junctions of a report give reason to warn of.
std::vector<std::string> warnings_of(const Report& report);

std::string report_to_json(const Report& report);

/// What others than the job itself need of a report. Throws InputError for a malformed file.
struct ReportSummary {
  std::string name;
  std::string method;
  int64_t width = 0;        ///< the largest
  std::string width_range;  ///< "216", "168 to 216"
  std::string target;       ///< "sparsity 0.2", "size 0.8, allocated"; empty: the width itself
  bool stock = false;       ///< a model of the source's family
  std::optional<int64_t> hidden_size;
  ModelReport dense;
  ModelReport compressed;
  double wall_time_s = 0.0;
  std::string compute_dtype;                        ///< of the perplexities
  std::optional<int64_t> evaluation_seqlen;         ///< tokens per window
  std::map<std::string, std::string> fingerprints;  ///< as in Report
  std::vector<std::string> warnings = {};           ///< as in Report

  /// Net bytes of the output over those of the dense model.
  double bytes_fraction() const {
    return static_cast<double>(compressed.bytes) / static_cast<double>(dense.bytes);
  }
};
ReportSummary read_report_summary(const std::filesystem::path& model_dir);
/// Of the document that `origin`, for messages, has. Throws likewise.
ReportSummary report_summary(const nlohmann::json& document, const std::string& origin);

/// The text of a report is no larger than this.
inline constexpr int64_t kMaxReportBytes = int64_t{64} << 20;

}  // namespace dotresize
