#pragma once

#include "job/spec/requests.h"

namespace dotresize {

/// Runs `dotresize-worker verify DIR`: checks an output, with `against` also that it was made from
/// that source, and lists every problem. Returns the exit code.
int verify_command(const VerifyRequest& request, bool json);

}  // namespace dotresize
