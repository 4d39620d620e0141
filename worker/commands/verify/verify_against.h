#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "job/spec/requests.h"

namespace dotresize {

/// Compares an output with the model that it was made of, and appends what is wrong to `problems`:
/// the hashes that its report has of the source's files; then, at full width, the logits of both
/// models over the tokens that are given or random ones; else both models' perplexities with the
/// reported ones, over the tokens of the job's evaluation. Text becomes tokens with the source's
/// tokenizer, kept in `cache_dir`. Throws UsageError if those tokens are needed and not given.
void verify_against(const VerifyRequest& request, const std::filesystem::path& cache_dir,
                    std::vector<std::string>& problems);

}  // namespace dotresize
