#pragma once

#include <ctemplate/template.h>

#include <string>
#include <string_view>

namespace dotresize {

/// Sets an untrusted text. It becomes one line, and the template escapes it for its context.
void set_text(ctemplate::TemplateDictionary& dictionary, const char* name, const std::string& text);

/// Sets HTML, a style sheet or a script. The template must not escape it.
void set_embedded(ctemplate::TemplateDictionary& dictionary, const char* name,
                  std::string_view content);

/// Expands the template `text` with these values. `name` is its file's name, for messages. Throws
/// std::runtime_error for a malformed template.
std::string expand_template(std::string_view text, const std::string& name,
                            const ctemplate::TemplateDictionary& dictionary);

// Embedded copies of this folder's files: templates, style sheet and script.

std::string_view frame_template();
std::string_view queue_template();
std::string_view jobs_template();
std::string_view job_table_template();
std::string_view job_template();
std::string_view actions_template();
std::string_view sign_in_template();
std::string_view message_template();
/// Styles in addition to page.css.
std::string_view web_css();
std::string_view live_js();

}  // namespace dotresize
