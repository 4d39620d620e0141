#pragma once

#include "job/spec/requests.h"

namespace dotresize {

/// `dotresize-worker verify DIR`: checks an output, and with `against` also that it is what was
/// made of that source; lists every problem. Returns the exit code.
int verify_command(const VerifyRequest& request, bool json);

}  // namespace dotresize
