#pragma once

#include <string_view>

namespace dotresize {

// The files of this folder that the pages are made of, byte for byte: templates (ctemplate), style
// sheet and program.

std::string_view frame_template();
std::string_view queue_template();
std::string_view jobs_template();
std::string_view job_table_template();
std::string_view job_template();
std::string_view actions_template();
std::string_view sign_in_template();
std::string_view message_template();
/// What page.css does not have.
std::string_view web_css();
std::string_view live_js();

}  // namespace dotresize
