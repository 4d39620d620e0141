#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "job/plan/resolved_job.h"
#include "worker/commands/token_input.h"

namespace dotresize {

// What tells files that a job has left from those of another one, as JSON. None of it has the
// number of ranks, budgets and the output's name. `weights`: the checkpoint's files.

/// All that the maps of a job and its healed layers depend on: the model's files, the tokens
/// (`healing`: of the job that heals), the options and the program's version. Not the evaluation.
nlohmann::json job_fingerprint(const ResolvedJob& job, const TokenWindows& calibration,
                               const TokenWindows& healing,
                               const std::vector<std::filesystem::path>& weights);

/// All that its statistics depend on: of the options the basis, the metric, whether there are costs
/// and which junctions have a basis together; of an allocation the steps of its sizes, and what may
/// become narrower.
nlohmann::json statistics_fingerprint(const ResolvedJob& job, const TokenWindows& calibration,
                                      const std::vector<std::filesystem::path>& weights);
inline constexpr char kCosts[] = "costs";
inline constexpr char kMapGroups[] = "map_groups";
/// Of statistics_fingerprint: every junction has a basis of its own.
inline constexpr char kOwnBases[] = "own";

/// All that the dense model's loss over these windows depends on.
nlohmann::json dense_loss_fingerprint(const ResolvedJob& job, const TokenWindows& evaluation,
                                      const std::vector<std::filesystem::path>& weights);

/// "samples is 64, and 32 in the journal": the first value of `wanted` that `found`, which lies
/// `where`, has otherwise; empty if there is none.
std::string difference(const nlohmann::json& wanted, const nlohmann::json& found,
                       const std::string& where);

}  // namespace dotresize
