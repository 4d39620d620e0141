#include "server/web/messages.h"

#include "server/web/templates/html_template.h"
#include "server/web/web_files.h"

namespace dotresize {
namespace {

constexpr char kNoJob[] = "none";  // differs from the state of every other page

}  // namespace

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

}  // namespace dotresize
