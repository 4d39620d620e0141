#include "server/web/frame.h"

#include <memory>
#include <stdexcept>

#include "base/process/program.h"
#include "base/text/printable.h"
#include "server/web/answers.h"

namespace dotresize {
namespace {

constexpr char kNoJob[] = "none";  // differs from the state of every other page

using ctemplate::Template;
using ctemplate::TemplateString;

TemplateString string_of(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

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

Frame sign_in_frame(const std::string& next, const std::string& fault) {
  ctemplate::TemplateDictionary dictionary("sign_in");
  set_text(dictionary, "NEXT", next);
  if (!fault.empty()) {
    set_text(*dictionary.AddSectionDictionary("HAS_FAULT"), "FAULT", fault);
  }
  return {.title = "Sign in",
          .body = expand_template(sign_in_template(), "sign_in.html", dictionary),
          .state = kNoJob};
}

Frame message_frame(const std::string& heading, const std::string& text) {
  ctemplate::TemplateDictionary dictionary("message");
  set_text(dictionary, "HEADING", heading);
  set_text(dictionary, "TEXT", text);
  return {.title = heading,
          .body = expand_template(message_template(), "message.html", dictionary),
          .state = kNoJob};
}

std::string actions_html(const std::vector<PageAction>& actions, const std::string& form_token) {
  if (actions.empty() || form_token.empty()) return "";
  ctemplate::TemplateDictionary dictionary("actions");
  for (const PageAction& action : actions) {
    ctemplate::TemplateDictionary& shown = *dictionary.AddSectionDictionary("ACTION");
    set_text(shown, "ADDRESS", action.address);
    set_text(shown, "LABEL", action.label);
    set_text(shown, "EFFECT", action.effect);
    set_text(shown, "BUTTON", action.button);
    set_text(shown, "FORM_TOKEN", form_token);
  }
  return expand_template(actions_template(), "actions.html", dictionary);
}

void set_text(ctemplate::TemplateDictionary& dictionary, const char* name,
              const std::string& text) {
  dictionary.SetValue(name, printable(text));
}

void set_embedded(ctemplate::TemplateDictionary& dictionary, const char* name,
                  std::string_view content) {
  dictionary.SetValue(name, string_of(content));
}

std::string expand_template(std::string_view text, const std::string& name,
                            const ctemplate::TemplateDictionary& dictionary) {
  // The library's cache is shared by the whole program, so the template is parsed anew each time.
  const std::unique_ptr<Template> made(
      Template::StringToTemplate(string_of(text), ctemplate::STRIP_BLANK_LINES));
  if (!made) throw std::runtime_error(name + " is not a template");
  std::string html;
  if (!made->Expand(&html, &dictionary)) throw std::runtime_error(name + " cannot be expanded");
  return html;
}

}  // namespace dotresize
