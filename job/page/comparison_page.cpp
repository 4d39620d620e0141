#include "job/page/comparison_page.h"

#include <fmt/format.h>

#include <map>

#include "base/text/human_text.h"

namespace dotresize {
namespace {

std::vector<Series> series_of(const std::vector<ComparedModel>& models) {
  std::map<std::string, Series> by_method;
  Series dense{.name = "dense model", .line = false};
  for (const ComparedModel& model : models) {
    const ReportSummary& summary = model.summary;
    if (!summary.dense.perplexity || !summary.compressed.perplexity) continue;
    Series& series = by_method[summary.method];
    series.name = summary.method;
    series.line = false;
    series.points.push_back(
        {100.0 * summary.bytes_fraction(), *summary.compressed.perplexity, model.path});
    if (dense.points.empty()) dense.points.push_back({100.0, *summary.dense.perplexity});
  }
  std::vector<Series> all;
  for (auto& [method, series] : by_method) all.push_back(std::move(series));
  if (!all.empty()) all.push_back(std::move(dense));
  return all;
}

Figure size_figure(std::vector<Series> series) {
  Figure figure{.id = "perplexity-size",
                .title = "Perplexity over net size",
                .text = "Each model at its net bytes; the table has the figures.",
                .x = {.title = "bytes of the model (% of the dense model's)"},
                .y = {.title = "perplexity"},
                .series = std::move(series)};
  figure.y.log = spans_orders(figure.series, &Point::y);
  figure.csv = csv_of(figure);
  return figure;
}

}  // namespace

Page comparison_page(const std::vector<ComparedModel>& models) {
  Page page;
  page.kind = "Comparison";
  page.title = counted(std::ssize(models), "model");
  page.summary = "What these compressions gave, side by side.";
  const std::string warning = comparison_warning(models);
  if (!warning.empty()) page.warnings.push_back(warning);
  std::vector<std::vector<std::string>> rows = comparison_rows(models);
  PageTable table{"Models", rows.front(), {rows.begin() + 1, rows.end()}};
  page.tables = {std::move(table)};
  std::vector<Series> series = series_of(models);
  if (!series.empty()) page.figures = {size_figure(std::move(series))};
  return page;
}

}  // namespace dotresize
