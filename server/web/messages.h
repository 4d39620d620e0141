#pragma once

#include <string>

#include "server/web/frame.h"

namespace dotresize {

/// Page that asks for a token. `next`: page shown after sign-in; `fault`: why it asks again, or
/// empty.
Frame sign_in_frame(const std::string& next, const std::string& fault);

/// Page with a message, e.g. why something cannot be shown or done.
Frame message_frame(const std::string& heading, const std::string& text);

}  // namespace dotresize
