#pragma once

#include <string_view>

namespace dotresize {

// Embedded copies of this folder's files: templates (ctemplate), style sheet and script.

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
