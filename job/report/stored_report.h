#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "job/report/report.h"

namespace dotresize {

/// Summary of a report, for readers other than the job itself.
struct ReportSummary {
  std::string name;
  std::string method;
  int64_t width = 0;        ///< largest width
  std::string width_range;  ///< "216", "168 to 216"
  std::string target;       ///< "sparsity 0.2", "size 0.8, allocated"; empty: an explicit width
  bool stock = false;       ///< the output is a model of the source's family
  std::optional<int64_t> hidden_size;
  ModelReport dense;
  ModelReport compressed;
  std::optional<StoredDtypes> output_dtypes;  ///< dtypes of the output's tensors
  double wall_time_s = 0.0;
  std::string compute_dtype;  ///< dtype in which the perplexities were computed
  TokenSource calibration;
  std::optional<EvaluationSource> evaluation;       ///< absent: no evaluation
  std::map<std::string, std::string> fingerprints;  ///< same as in Report
  std::vector<std::string> files = {};              ///< same; empty: of an earlier version
  std::vector<std::string> warnings = {};           ///< same as in Report

  /// Net bytes of the output, divided by those of the dense model.
  double bytes_fraction() const {
    return static_cast<double>(compressed.bytes) / static_cast<double>(dense.bytes);
  }
};

/// Reads the report in a model directory. Throws InputError for a malformed file.
ReportSummary read_report_summary(const std::filesystem::path& model_dir);
/// Version for a parsed document; `origin` names it in errors. Same errors.
ReportSummary report_summary(const nlohmann::json& document, const std::string& origin);

/// Largest size of a report's text, in bytes.
inline constexpr int64_t kMaxReportBytes = int64_t{64} << 20;

/// A stored report of this version or an earlier one.
struct StoredReport {
  ReportSummary summary;
  nlohmann::json document;  ///< report.json; of its lists' entries only what this version knows
};

/// Parses the text of report.json. Throws InputError, starting with `origin`, if it is malformed:
/// the pages of reports trust the entries.
StoredReport parse_report(const std::string& text, const std::string& origin);

}  // namespace dotresize
