#include "server/web/frame.h"

#include "base/process/program.h"
#include "job/page/template/html_template.h"
#include "server/web/assets.h"
#include "server/web/web_files.h"

namespace dotresize {

std::string frame_html(const Frame& frame) {
  ctemplate::TemplateDictionary dictionary("frame");
  set_text(dictionary, "TITLE", frame.title);
  set_text(dictionary, "STATE", frame.state);
  set_text(dictionary, "VERSION", kVersion);
  set_text(dictionary, "STYLE_URL", asset_url("/style.css"));
  set_text(dictionary, "LIVE_URL", asset_url("/live.js"));
  set_embedded(dictionary, "BODY", frame.body);
  if (frame.live) dictionary.ShowSection("LIVE");
  if (!frame.caller.empty()) {
    ctemplate::TemplateDictionary& session = *dictionary.AddSectionDictionary("SESSION");
    set_text(session, "CALLER", frame.caller);
    set_text(session, "FORM_TOKEN", frame.form_token);
  }
  if (!frame.figures.empty()) {
    ctemplate::TemplateDictionary& figures = *dictionary.AddSectionDictionary("FIGURES");
    set_embedded(figures, "FIGURES_JSON", frame.figures);
    set_text(figures, "CHART_URL", asset_url("/chart.js"));
    set_text(figures, "FIGURES_URL", asset_url("/figures.js"));
  }
  return expand_template(frame_template(), "frame.html", dictionary);
}

}  // namespace dotresize
