#include "job/page/page_blocks.h"

#include "base/text/printable.h"
#include "job/page/figures/plan_gallery.h"
#include "job/page/figures/plan_image.h"
#include "job/page/page_data.h"
#include "job/page/template/html_template.h"
#include "job/page/template/page_files.h"

namespace dotresize {
namespace {

using ctemplate::TemplateDictionary;

void add_table(TemplateDictionary& tables, const PageTable& table) {
  TemplateDictionary& shown = *tables.AddSectionDictionary("TABLE");
  set_text(shown, "CAPTION", table.caption);
  if (table.prose) shown.ShowSection("PROSE");
  for (const std::string& cell : table.heading) {
    set_text(*shown.AddSectionDictionary("HEADING"), "CELL", cell);
  }
  for (const auto& row : table.rows) {
    TemplateDictionary& line = *shown.AddSectionDictionary("ROW");
    set_text(line, "NAME", row.front());
    for (size_t i = 1; i < row.size(); ++i) {
      set_text(*line.AddSectionDictionary("VALUE"), "CELL", row[i]);
    }
  }
}

/// Appends a block for elements of one kind.
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
    set_text(shown, "ID", figure.id);
    set_text(shown, "FIGURE_TITLE", figure.title);
    set_text(shown, "TEXT", figure.text);
    shown.SetValue("CSV", base64(figure.csv));
  }
}

void add_plan(TemplateDictionary& block, const PlanGallery& gallery, size_t index,
              const ColourScale& scale) {
  const Plan& plan = gallery.plans[index];
  TemplateDictionary& shown = *block.AddSectionDictionary("PLAN");
  shown.SetIntValue("INDEX", static_cast<long>(index));
  shown.SetIntValue("COLUMNS", static_cast<long>(plan.picture.columns));
  shown.SetIntValue("ROWS", static_cast<long>(image_rows(plan.picture)));
  set_text(shown, "NAME", plan.name);
  set_text(shown, "TEXT", plan.text);
  set_text(shown, "X", gallery.x);
  set_text(shown, "Y", gallery.y);
  shown.SetValue("PNG", base64(png_of(plan.picture, scale)));
  shown.SetValue("CSV", base64(csv_of(plan.picture)));
}

void add_plans(TemplateDictionary& page, const PlanGallery& gallery) {
  const ColourScale scale(pictures_of(gallery));
  TemplateDictionary& block = add_block(page, "PLANS");
  set_text(block, "TEXT", gallery.text);
  for (const size_t index : shown_plans(gallery)) add_plan(block, gallery, index, scale);
  block.SetValue("SCALE_PNG", base64(png_of_scale()));
  for (const double mass : scale.ticks()) {
    set_text(*block.AddSectionDictionary("TICK"), "CELL", scientific(mass));
  }
  block.SetValue("PLANS_JSON", plans_json(gallery, scale));
}

void add_lines(TemplateDictionary& page, const PageText& text) {
  TemplateDictionary& block = add_block(page, "LINES");
  set_text(block, "CAPTION", text.heading);
  block.SetValue("TEXT", printable_lines(text.text));
  if (text.tail) block.ShowSection("TAIL");
}

}  // namespace

std::string blocks_html(const Page& page) {
  TemplateDictionary dictionary("blocks");
  if (!page.error.empty()) {
    dictionary.SetValueAndShowSection("ERROR", printable(page.error), "HAS_ERROR");
  }
  if (!page.warnings.empty()) dictionary.ShowSection("HAS_WARNINGS");
  for (const std::string& warning : page.warnings) {
    set_text(*dictionary.AddSectionDictionary("WARNING"), "CELL", warning);
  }
  add_tables(dictionary, page.tables);
  add_figures(dictionary, page.figures);
  if (page.plans) add_plans(dictionary, *page.plans);
  for (const PageText& text : page.texts) add_lines(dictionary, text);
  add_tables(dictionary, page.details);
  return expand_template(blocks_template(), "blocks.html", dictionary);
}

}  // namespace dotresize
