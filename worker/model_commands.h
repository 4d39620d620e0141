#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "job/resolved_job.h"

namespace dotresize {

/// `dotresize-worker eval MODEL_DIR`: prints the perplexity of a dense or compressed model over a
/// text or token file.
int eval_command(const std::filesystem::path& model_dir, const TokenSource& source, bool json);

/// `dotresize-worker verify DIR`: hashes, shapes and finite values of an output; lists every
/// problem.
int verify_command(const std::filesystem::path& dir, bool json);

}  // namespace dotresize
