#pragma once

#include <string>
#include <vector>

#include "job/report/report.h"

namespace dotresize {

/// A model beside others.
struct ComparedModel {
  std::string path;  ///< its directory
  ReportSummary summary;
};

/// The heading, then a row for each model: what it was made by, its size, how good it is, how long
/// it took, and where it is.
std::vector<std::vector<std::string>> comparison_rows(const std::vector<ComparedModel>& models);

/// Why the perplexities of the models cannot be compared; empty if they can.
std::string comparison_warning(const std::vector<ComparedModel>& models);

/// The rows as a table, and the warning. Ends with a newline.
std::string comparison_table(const std::vector<ComparedModel>& models);

/// "216 of 256", "168 to 216 of 256".
std::string width_text(const ReportSummary& summary);

}  // namespace dotresize
