#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "job/plan/resolved_job.h"
#include "worker/commands/token_input.h"

namespace dotresize {

// Fingerprints, as JSON, that tell the files of one job from those of another. They leave out the
// number of ranks, budgets and the output's name. `weights`: the checkpoint's files.

/// Returns everything that a job's maps and healed layers depend on: the model's files, the tokens
/// (`healing`: those of a job that heals), the options and the program's version. Leaves out the
/// evaluation.
nlohmann::json job_fingerprint(const ResolvedJob& job, const TokenWindows& calibration,
                               const TokenWindows& healing,
                               const std::vector<std::filesystem::path>& weights);

/// Returns everything that a job's statistics depend on. The options count with the basis, the
/// metric, the presence of costs, and which junctions share a basis. An allocation counts with its
/// step of sizes and with what may become narrower.
nlohmann::json statistics_fingerprint(const ResolvedJob& job, const TokenWindows& calibration,
                                      const std::vector<std::filesystem::path>& weights);
inline constexpr char kCosts[] = "costs";
/// Key of statistics_fingerprint, and its values: a basis for each junction, or one for all.
inline constexpr char kBases[] = "bases";
inline constexpr char kOwnBases[] = "own";
inline constexpr char kSharedBasis[] = "shared";

/// Returns everything that the dense model's loss over these windows depends on.
nlohmann::json dense_loss_fingerprint(const ResolvedJob& job, const TokenWindows& evaluation,
                                      const std::vector<std::filesystem::path>& weights);

/// Returns the first difference between `wanted` and `found` as a text: "samples is 64, and 32 in
/// the journal"; empty if they are equal. `where`: the name of `found`'s place.
std::string difference(const nlohmann::json& wanted, const nlohmann::json& found,
                       const std::string& where);

}  // namespace dotresize
