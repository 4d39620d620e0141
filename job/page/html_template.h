#pragma once

#include <ctemplate/template.h>

#include <string>
#include <string_view>

namespace dotresize {

/// Sets a text that may be anybody's: on one line, and the template escapes it for its place there.
void set_text(ctemplate::TemplateDictionary& dictionary, const char* name, const std::string& text);

/// Sets what is HTML, a style sheet or a program already: the template must take it as it is.
void set_embedded(ctemplate::TemplateDictionary& dictionary, const char* name,
                  std::string_view content);

/// The template `text` with these values. `name` is that of its file, for messages. Throws
/// std::runtime_error for a malformed template.
std::string expand_template(std::string_view text, const std::string& name,
                            const ctemplate::TemplateDictionary& dictionary);

}  // namespace dotresize
