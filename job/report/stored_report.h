#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "job/report/report.h"

namespace dotresize {

/// A report as it was stored, of this version or an earlier one.
struct StoredReport {
  ReportSummary summary;
  std::vector<JunctionReport> junctions;
  std::vector<ShortcutReport> shortcuts;
  std::vector<MlpReport> mlps;
  std::vector<AttentionReport> attentions;
  std::optional<HealingReport> healing;  ///< if anything was trained
  std::vector<RankReport> ranks;
  nlohmann::json document;  ///< all of it

  /// Whether its predictions are of the loss (`metric: fisher`).
  bool in_metric_of_loss() const;
};

/// Reads report.json. Throws InputError, starting with `origin`, for a malformed one.
StoredReport parse_report(const std::string& text, const std::string& origin);

}  // namespace dotresize
