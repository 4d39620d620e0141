#pragma once

#include <string>
#include <vector>

#include "job/report/report.h"
#include "job/report/stored_report.h"

// Tables of reports for people: the result of a job, its time, and several models side by side.
namespace dotresize {

/// Rows of result_table. The heading comes first: what, dense, compressed, change.
std::vector<std::vector<std::string>> result_rows(const ModelReport& dense,
                                                  const ModelReport& compressed);

/// Main result table of a compression: sizes of both models and, if measured, their perplexities
/// and the divergence of the compressed model's predictions. Ends with a newline.
std::string result_table(const ModelReport& dense, const ModelReport& compressed);

/// Table of a job's time: the phases by falling share, each with its mean and its longest time over
/// the ranks. Below it: tokens per second, the largest peak memory, and the rate of the l1 costs.
/// Ends with a newline; empty without ranks.
std::string phase_table(const Report& report);

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

/// "216 of 256"; "168 to 216 of 256" if the widths differ.
std::string width_text(const ReportSummary& summary);

}  // namespace dotresize
