#pragma once

#include "job/page/page.h"
#include "job/report/stored_report.h"

namespace dotresize {

/// What was done and what came out.
Page report_page(const StoredReport& report);

/// Rows of name and value from a JSON document: of those of `pointers` (name, JSON pointer) that it
/// has.
std::vector<std::vector<std::string>> facts_of(
    const nlohmann::json& document,
    const std::vector<std::pair<std::string, std::string>>& pointers);

}  // namespace dotresize
