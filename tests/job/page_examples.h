#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "job/page/page.h"
#include "job/report/report.h"

namespace dotresize {

/// A mapped junction of a small model, with the picture of its plan: 3 rows, 2 columns.
JunctionReport example_junction(const std::string& name, int64_t width, int64_t rank);
/// Of a job with everything that a report may have: two junctions, two ranks.
Report example_report(const std::string& name = "small");
/// As report.json has it.
Page page_of(const Report& report);

/// An entry of results.json for a job that is done.
nlohmann::json example_variant(const std::string& method, const nlohmann::json& lambda,
                               const std::string& size, double fraction, double perplexity,
                               bool pareto);
/// results.json of a sweep with four jobs that are done, the first and the last on the front, and
/// one that was refused.
nlohmann::json example_sweep();
Page page_of(const nlohmann::json& sweep);

std::vector<std::string> ids_of(const Page& page);
/// Throws std::out_of_range.
const Figure& figure_of(const Page& page, const std::string& id);

/// What stands between the first `begin` and the next `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end);
/// The page without Chart.js, which is not ours.
std::string own_part(std::string html);
size_t count_of(const std::string& text, const std::string& word);
std::string file_text(const std::string& path);

}  // namespace dotresize
