#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "job/page/page.h"
#include "job/report/report.h"

namespace dotresize {

/// Returns a mapped junction of a small model, with a picture of 3 rows and 2 columns.
JunctionReport example_junction(const std::string& name, int64_t width, int64_t rank);
/// Returns a report with every optional part, of a job with two junctions and two ranks.
Report example_report(const std::string& name = "small");
/// Returns the page of the report after a round trip through report.json.
Page page_of(const Report& report);

/// Returns the entry of results.json for a finished job.
nlohmann::json example_variant(const std::string& method, const nlohmann::json& lambda,
                               const std::string& size, double fraction, double perplexity,
                               bool pareto);
/// Returns results.json of a sweep with four finished jobs, the first and the last of them on the
/// Pareto front, and a refused one.
nlohmann::json example_sweep();
Page page_of(const nlohmann::json& sweep);

std::vector<std::string> ids_of(const Page& page);
/// Returns the figure of this id. Throws std::out_of_range.
const Figure& figure_of(const Page& page, const std::string& id);

/// Returns the text between the first `begin` and the next `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end);
/// Returns the page without Chart.js, which is third-party code.
std::string own_part(std::string html);
size_t count_of(const std::string& text, const std::string& word);
std::string file_text(const std::string& path);

}  // namespace dotresize
