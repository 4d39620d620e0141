#pragma once

#include <string>
#include <vector>

#include "job/report/report.h"

namespace dotresize {

/// A model in a comparison.
struct ComparedModel {
  std::string path;  ///< directory of the model
  ReportSummary summary;
};

/// The heading, then a row for each model: method, size, quality, time and path.
std::vector<std::vector<std::string>> comparison_rows(const std::vector<ComparedModel>& models);

/// Reason why the perplexities of the models cannot be compared; empty if they can.
std::string comparison_warning(const std::vector<ComparedModel>& models);

/// The rows as a table, then the warning. Ends with a newline.
std::string comparison_table(const std::vector<ComparedModel>& models);

/// "216 of 256", "168 to 216 of 256".
std::string width_text(const ReportSummary& summary);

}  // namespace dotresize
