#include "server/web/frame.h"

#include "base/process/program.h"
#include "server/web/assets.h"
#include "server/web/templates/html_template.h"
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
  if (!frame.report.empty()) {
    ctemplate::TemplateDictionary& report = *dictionary.AddSectionDictionary("REPORT");
    set_embedded(report, "DATA", frame.report);
    set_text(report, "CHART_URL", asset_url("/chart.js"));
    set_text(report, "REPORT_URL", asset_url("/report.js"));
  }
  return expand_template(frame_template(), "frame.html", dictionary);
}

}  // namespace dotresize
