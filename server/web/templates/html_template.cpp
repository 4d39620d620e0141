#include "server/web/templates/html_template.h"

#include <memory>
#include <stdexcept>

#include "base/text/printable.h"

namespace dotresize {
namespace {

using ctemplate::Template;
using ctemplate::TemplateString;

TemplateString string_of(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

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
