#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/allocate/allocation.h"
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
  /// KL(dense || compressed) in nats, mean over the predicted tokens. Compressed model only.
  std::optional<double> kl = {};
  /// Fraction of these tokens for which both models have the same most likely token.
  std::optional<double> agreement = {};
  StoredDtypes dtypes = {};  ///< dtypes of its tensors
};

/// Content of `dotresize/report.json` (docs/output.md). Schema version 1: fields are added, never
/// changed.
struct Report {
  std::string tool_version;
  ResolvedJob job;
  JunctionWidths widths;  ///< widths of the output
  std::vector<JunctionReport> junctions;
  std::vector<ShortcutReport> shortcuts;  ///< empty: the output has no shortcuts
  std::vector<CutReport> cuts;            ///< sublayers that may have been cut, in their order
  std::optional<Allocation> allocation;   ///< result of `method.allocate`
  /// KL(dense || compressed) of the allocation's trial, in nats per token, on windows that nothing
  /// was fitted to.
  std::optional<double> held_out_kl = {};
  std::optional<HealingReport> healing = {};  ///< result of `heal`; absent also with 0 epochs
  int64_t healing_tokens = 0;                 ///< tokens in the windows of `heal`
  ModelReport dense;                          ///< a wrapper's text part, as `compressed`
  ModelReport compressed;
  std::optional<Wrapper> wrapper = {};            ///< the model around both
  std::optional<Quantisation> quantisation = {};  ///< the source's; `dense` is in bfloat16
  std::vector<RankReport> ranks;
  double wall_time_s = 0.0;
  int64_t calibration_tokens = 0;
  double calibration_s = 0.0;                       ///< wall time of the phase `calibrate`
  int64_t evaluation_tokens = 0;                    ///< predicted tokens
  std::optional<int64_t> evaluation_seqlen;         ///< tokens per window; absent: no evaluation
  std::map<std::string, std::string> fingerprints;  ///< SHA-256 by input: model files, tokens
  std::vector<std::string> files = {};  ///< names of the output's files, without SHA256SUMS
  std::vector<std::string> warnings;

  /// Calibration tokens per second of wall time, from the first token read to the last junction
  /// folded.
  double tokens_per_second() const {
    return static_cast<double>(calibration_tokens) / calibration_s;
  }
};

/// Converts to the API's message.
v1::ModelSize to_message(const ModelReport& model);

/// Stored sizes of both models.
NetSize net_size(const Report& report);

/// Warnings that follow from the sizes, predictions, perplexity, junctions and MLPs of a report.
std::vector<std::string> warnings_of(const Report& report);

/// Version of the content of report.json.
inline constexpr int64_t kReportVersion = 1;

std::string report_to_json(const Report& report);

/// Renders the model card (README.md of the output): description, loading instructions, numbers.
std::string model_card(const Report& report, const ModelConfig& config);

}  // namespace dotresize
