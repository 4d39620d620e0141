#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "job/spec/requests.h"

namespace dotresize {

/// Compares an output with the model that it was made from, and appends faults to `problems`.
/// Checks the report's hashes of the source's files. At full width it then compares the logits of
/// both models over given or random tokens. Otherwise it compares both models' perplexities with
/// the reported ones, over the tokens of the job's evaluation. Text is tokenised with the source's
/// tokenizer and cached in `cache_dir`. Throws UsageError if tokens are needed and missing.
void verify_against(const VerifyRequest& request, const std::filesystem::path& cache_dir,
                    std::vector<std::string>& problems);

}  // namespace dotresize
