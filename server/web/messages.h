#pragma once

#include <string>

#include "server/web/frame.h"

namespace dotresize {

/// Asks for a token. `next`: the page that is shown then; `fault`: why it asks again, or empty.
Frame sign_in_frame(const std::string& next, const std::string& fault);

/// Says why something cannot be shown or done.
Frame message_frame(const std::string& heading, const std::string& text);

}  // namespace dotresize
