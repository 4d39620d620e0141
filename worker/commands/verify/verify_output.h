#pragma once

#include <filesystem>

#include "worker/checkpoint/verify.h"

namespace dotresize {

/// Checks an output directory by itself: verify_model_dir against what its config.json implies, the
/// dtype that it states, and shortcut_problem of every shortcut. Throws InputError if there is
/// no such directory or its config.json cannot be used.
VerifyResult verify_output(const std::filesystem::path& dir);

}  // namespace dotresize
