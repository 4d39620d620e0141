#pragma once

#include "job/page/page.h"
#include "job/report/stored_report.h"

namespace dotresize {

/// Page for one job: its settings and its results.
Page report_page(const StoredReport& report);

/// Rows of name and value, taken from a JSON document. `pointers` has names and JSON pointers;
/// absent values are left out.
std::vector<std::vector<std::string>> facts_of(
    const nlohmann::json& document,
    const std::vector<std::pair<std::string, std::string>>& pointers);

}  // namespace dotresize
