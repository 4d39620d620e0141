#include "server/web/actions.h"

#include "server/web/templates/html_template.h"
#include "server/web/web_files.h"

namespace dotresize {

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

}  // namespace dotresize
