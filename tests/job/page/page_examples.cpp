#include "tests/job/page/page_examples.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "job/page/report_page.h"
#include "job/page/sweep_page.h"
#include "job/page/template/page_files.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {

using nlohmann::json;

JunctionReport example_junction(const std::string& name, int64_t width, int64_t rank) {
  JunctionReport made;
  made.name = name;
  made.width = width;
  made.effective_rank = rank;
  made.retained_energy = 0.97;
  made.spectrum = {{1, 0.5}, {16, 0.875}, {256, 1.0}};
  made.sinkhorn_iterations = 42;
  made.sinkhorn_violation = 1e-9;
  made.sinkhorn_converged = true;
  made.transport = TransportPicture{.block = 100,
                                    .rows = 3,
                                    .columns = 2,
                                    .largest = 0.25,
                                    .levels = {255, 223, 0, 255, 223, 191},
                                    .stays = 0.75,
                                    .kept_targets = 1.5,
                                    .merged_targets = 1.25};
  return made;
}

Report example_report(const std::string& name) {
  Report report;
  report.job = small_job(small_llama(), 2);
  report.job.name = name;
  report.widths = report.job.widths;
  report.junctions = {example_junction("embed", 200, 227),
                      example_junction("layers.0.attention", 200, 184)};
  report.shortcuts = {{"layers.0.attention", 8, 56, 1600}, {"layers.0.mlp", {}, 56, 40000}};
  report.mlps = {{"layers.0.mlp", 640, 768, 0.001, 0}};
  report.job.healing = Healing{};
  report.healing = HealingReport{{{"layers.0", 0.25, 0.125, 3}, {"layers.1", 0.5, 0.5, 0}},
                                 {0.5, 0.375, 0.25, 0.25, 0.125},
                                 0.75};
  report.dense = {1000, 2000, 26.03};
  report.compressed = {800, 1600, 29.05, 0.125, 0.75};
  report.ranks = {{0, "host", 0, 6, {{"forward", 1.5}, {"sinkhorn", 0.5}}, 1 << 30},
                  {1, "host", 6, 12, {{"forward", 2.5}}, 1 << 30}};
  report.wall_time_s = 12.0;
  report.fingerprints = {{"config.json", "ab12"}};
  return report;
}

Page page_of(const Report& report) {
  return report_page(parse_report(report_to_json(report), "report.json"));
}

json example_variant(const std::string& method, const json& lambda, const std::string& size,
                     double fraction, double perplexity, bool pareto) {
  return {{"values", {{"method.name", method}, {"method.lambda", lambda}, {"method.size", size}}},
          {"state", "done"},
          {"id", method},
          {"width", 200},
          {"bytes", static_cast<int64_t>(fraction * 1000)},
          {"bytes_fraction", fraction},
          {"perplexity", perplexity},
          {"wall_time_s", 1.5},
          {"pareto", pareto},
          {"best", pareto}};
}

json example_sweep() {
  json refused = {
      {"values",
       {{"method.name", "slicegpt"}, {"method.lambda", nullptr}, {"method.size", "0.01"}}},
      {"state", "refused"},
      {"reason", "method.size: too small"}};
  return {{"name", "sizes"},
          {"directory", "/out/sweep"},
          {"combinations", 8},
          {"axes", {"method.name", "method.lambda", "method.size"}},
          {"dense", {{"bytes", 1000}, {"perplexity", 50.0}}},
          {"variants",
           {example_variant("slicegpt", nullptr, "0.9", 0.9, 52.0, true),
            example_variant("pca_dotresize", "1", "0.9", 0.9, 53.0, false),
            example_variant("pca_dotresize", "0.01", "0.9", 0.9, 54.0, false),
            example_variant("pca_dotresize", "0.01", "0.8", 0.8, 60.0, true), refused}}};
}

Page page_of(const json& sweep) { return sweep_page(parse_results(sweep.dump(), "results.json")); }

std::vector<std::string> ids_of(const Page& page) {
  std::vector<std::string> ids;
  for (const Figure& figure : page.figures) ids.push_back(figure.id);
  return ids;
}

const Figure& figure_of(const Page& page, const std::string& id) {
  const auto found = std::ranges::find(page.figures, id, &Figure::id);
  if (found == page.figures.end()) throw std::out_of_range(id);
  return *found;
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  if (from == std::string::npos) throw std::out_of_range(begin);
  return text.substr(from + begin.size(),
                     text.find(end, from + begin.size()) - from - begin.size());
}

std::string own_part(std::string html) {
  html.erase(html.find(chart_js()), chart_js().size());
  return html;
}

size_t count_of(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace dotresize
