#pragma once

#include <ctemplate/template.h>

#include <string>
#include <string_view>
#include <vector>

namespace dotresize {

/// Content of the frame that all pages share.
struct Frame {
  std::string title = {};
  std::string body = {};        ///< HTML
  std::string state = {};       ///< the page reloads completely when this changes
  bool live = false;            ///< the parts with data-live are updated in place
  std::string report = {};      ///< Page::data of the report in `body`; empty: none
  std::string caller = {};      ///< "ann (submit)"; empty: not signed in
  std::string form_token = {};  ///< set if signed in
};

/// The complete HTML document, UTF-8.
std::string frame_html(const Frame& frame);

/// Page that asks for a token. `next`: page shown after sign-in; `fault`: why it asks again, or
/// empty.
Frame sign_in_frame(const std::string& next, const std::string& fault);

/// Page with a message, e.g. why something cannot be shown or done.
Frame message_frame(const std::string& heading, const std::string& text);

/// An action that a page offers.
struct PageAction {
  std::string address;  ///< target of its form
  std::string label;
  std::string button;  ///< label of the confirming button, shown with `effect`
  std::string effect;
};

/// HTML forms of the actions, with the visitor's form token; empty without a token or without
/// actions.
std::string actions_html(const std::vector<PageAction>& actions, const std::string& form_token);

/// Sets an untrusted text. It becomes one line, and the template escapes it for its context.
void set_text(ctemplate::TemplateDictionary& dictionary, const char* name, const std::string& text);

/// Sets HTML, a style sheet or a script. The template must not escape it.
void set_embedded(ctemplate::TemplateDictionary& dictionary, const char* name,
                  std::string_view content);

/// Expands the template `text` with these values. `name` is its file's name, for messages. Throws
/// std::runtime_error for a malformed template.
std::string expand_template(std::string_view text, const std::string& name,
                            const ctemplate::TemplateDictionary& dictionary);

// Embedded copies of the files of templates/.

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
