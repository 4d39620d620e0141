#include "job/page/page.h"

#include <ctemplate/template.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <stdexcept>

#include "base/csv.h"
#include "base/printable.h"
#include "base/program.h"
#include "job/page/page_data.h"
#include "job/page/page_files.h"

namespace dotresize {
namespace {

using ctemplate::Template;
using ctemplate::TemplateDictionary;
using ctemplate::TemplateString;

constexpr double kLogRatio = 5.0;

TemplateString string_of(std::string_view text) { return {text.data(), text.size()}; }

/// The template escapes it for its place there.
void set(TemplateDictionary& dictionary, const char* name, const std::string& text) {
  dictionary.SetValue(name, printable(text));
}

void add_table(TemplateDictionary& tables, const PageTable& table) {
  TemplateDictionary& shown = *tables.AddSectionDictionary("TABLE");
  set(shown, "CAPTION", table.caption);
  if (table.prose) shown.ShowSection("PROSE");
  for (const std::string& cell : table.heading) {
    set(*shown.AddSectionDictionary("HEADING"), "CELL", cell);
  }
  for (const auto& row : table.rows) {
    TemplateDictionary& line = *shown.AddSectionDictionary("ROW");
    set(line, "NAME", row.front());
    for (size_t i = 1; i < row.size(); ++i) {
      set(*line.AddSectionDictionary("VALUE"), "CELL", row[i]);
    }
  }
}

/// What follows each other on the page: a block for each kind.
TemplateDictionary& add_block(TemplateDictionary& page, const char* kind) {
  return *page.AddSectionDictionary("BLOCK")->AddSectionDictionary(kind);
}

void add_tables(TemplateDictionary& page, const std::vector<PageTable>& tables) {
  if (tables.empty()) return;
  TemplateDictionary& block = add_block(page, "TABLES");
  for (const PageTable& table : tables) add_table(block, table);
}

void add_figures(TemplateDictionary& page, const std::vector<Figure>& figures) {
  if (figures.empty()) return;
  TemplateDictionary& block = add_block(page, "FIGURES");
  for (const Figure& figure : figures) {
    TemplateDictionary& shown = *block.AddSectionDictionary("FIGURE");
    set(shown, "ID", figure.id);
    set(shown, "FIGURE_TITLE", figure.title);
    set(shown, "TEXT", figure.text);
    shown.SetValue("CSV", base64(figure.csv));
  }
}

void add_lines(TemplateDictionary& page, const PageText& text) {
  TemplateDictionary& block = add_block(page, "LINES");
  set(block, "CAPTION", text.heading);
  block.SetValue("TEXT", printable_lines(text.text));
}

void set_embedded(TemplateDictionary& dictionary, const char* name, const char* hash_name,
                  std::string_view content) {
  dictionary.SetValue(name, string_of(content));
  dictionary.SetValue(hash_name, content_hash(content));
}

void fill(TemplateDictionary& dictionary, const Page& page) {
  set_embedded(dictionary, "CSS", "CSS_HASH", page_css());
  set_embedded(dictionary, "CHART_JS", "CHART_JS_HASH", chart_js());
  set_embedded(dictionary, "PAGE_JS", "PAGE_JS_HASH", page_js());
  dictionary.SetValue("FIGURES_JSON", figures_json(page.figures));
  set(dictionary, "KIND", page.kind);
  set(dictionary, "TITLE", page.title);
  set(dictionary, "SUMMARY", page.summary);
  set(dictionary, "VERSION", kVersion);
  if (!page.error.empty()) {
    dictionary.SetValueAndShowSection("ERROR", printable(page.error), "HAS_ERROR");
  }
  if (!page.warnings.empty()) dictionary.ShowSection("HAS_WARNINGS");
  for (const std::string& warning : page.warnings) {
    set(*dictionary.AddSectionDictionary("WARNING"), "CELL", warning);
  }
  add_tables(dictionary, page.tables);
  add_figures(dictionary, page.figures);
  for (const PageText& text : page.texts) add_lines(dictionary, text);
  add_tables(dictionary, page.details);
}

std::string csv_of_categories(const Figure& figure) {
  std::string text = csv_cell(figure.x.title);
  for (const Series& series : figure.series) text += "," + csv_cell(series.name);
  text += "\n";
  std::vector<std::map<size_t, double>> columns;
  for (const Series& series : figure.series) {
    auto& column = columns.emplace_back();
    for (const Point& point : series.points) column[static_cast<size_t>(point.x)] = point.y;
  }
  for (size_t i = 0; i < figure.categories.size(); ++i) {
    text += csv_cell(figure.categories[i]);
    for (const auto& column : columns) {
      text += ",";
      if (const auto found = column.find(i); found != column.end()) {
        text += fmt::format("{}", found->second);
      }
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string page_html(const Page& page) {
  // Made anew each time: the cache of the library is one for the whole program.
  const std::unique_ptr<Template> page_file(
      Template::StringToTemplate(string_of(page_template()), ctemplate::STRIP_BLANK_LINES));
  if (!page_file) throw std::runtime_error("page.html is no template");
  TemplateDictionary dictionary("page");
  fill(dictionary, page);
  std::string html;
  if (!page_file->Expand(&html, &dictionary)) {
    throw std::runtime_error("page.html cannot be expanded");
  }
  return html;
}

std::string csv_of(const Figure& figure) {
  if (!figure.categories.empty()) return csv_of_categories(figure);
  const bool labels = std::ranges::any_of(figure.series, [](const Series& series) {
    return std::ranges::any_of(series.points,
                               [](const Point& point) { return !point.label.empty(); });
  });
  std::string text = "series," + csv_cell(figure.x.title) + "," + csv_cell(figure.y.title) +
                     (labels ? ",label" : "") + "\n";
  for (const Series& series : figure.series) {
    for (const Point& point : series.points) {
      text += fmt::format("{},{},{}", csv_cell(series.name), point.x, point.y);
      if (labels) text += "," + csv_cell(point.label);
      text += "\n";
    }
  }
  return text;
}

bool spans_orders(const std::vector<Series>& series, double Point::*of) {
  double low = INFINITY;
  double high = 0.0;
  for (const Series& each : series) {
    for (const Point& point : each.points) {
      low = std::min(low, point.*of);
      high = std::max(high, point.*of);
    }
  }
  return low > 0 && high / low >= kLogRatio;
}

std::string short_number(double value) { return fmt::format("{:.4g}", value); }

}  // namespace dotresize
