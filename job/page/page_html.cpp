#include "job/page/page_html.h"

#include "base/process/program.h"
#include "job/page/page_blocks.h"
#include "job/page/page_data.h"
#include "job/page/template/html_template.h"
#include "job/page/template/page_files.h"

namespace dotresize {
namespace {

using ctemplate::TemplateDictionary;

void set_hashed(TemplateDictionary& dictionary, const char* name, const char* hash_name,
                std::string_view content) {
  set_embedded(dictionary, name, content);
  dictionary.SetValue(hash_name, content_hash(content));
}

}  // namespace

std::string page_html(const Page& page) {
  TemplateDictionary dictionary("page");
  set_hashed(dictionary, "CSS", "CSS_HASH", page_css());
  set_hashed(dictionary, "CHART_JS", "CHART_JS_HASH", chart_js());
  set_hashed(dictionary, "PAGE_JS", "PAGE_JS_HASH", page_js());
  dictionary.SetValue("FIGURES_JSON", figures_json(page.figures));
  set_text(dictionary, "KIND", page.kind);
  set_text(dictionary, "TITLE", page.title);
  set_text(dictionary, "SUMMARY", page.summary);
  set_text(dictionary, "VERSION", kVersion);
  set_embedded(dictionary, "BLOCKS", blocks_html(page));
  return expand_template(page_template(), "page.html", dictionary);
}

}  // namespace dotresize
