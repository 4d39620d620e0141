#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "job/report/report.h"

namespace dotresize {

/// A stored report of this version or an earlier one.
struct StoredReport {
  ReportSummary summary;
  std::vector<JunctionReport> junctions;
  std::vector<ShortcutReport> shortcuts;
  std::vector<MlpReport> mlps;
  std::vector<AttentionReport> attentions;
  std::optional<HealingReport> healing;  ///< absent: `heal` was not asked for
  std::vector<RankReport> ranks;
  nlohmann::json document;  ///< the whole report.json
};

/// Parses the text of report.json. Throws InputError, starting with `origin`, for a malformed one.
StoredReport parse_report(const std::string& text, const std::string& origin);

}  // namespace dotresize
