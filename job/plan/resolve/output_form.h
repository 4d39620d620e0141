#pragma once

#include <string>

#include "dotresize/v1/job.pb.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

// Outputs that a model can have. Checks throw InputError naming the key.

/// Returns why the residual stream of a stock or a custom output cannot be narrower. Empty: it can.
std::string reason_against_maps(const ModelConfig& config, bool stock);

/// Applies the architecture that the job asks for by name.
void resolve_architecture(v1::Output::Architecture asked, const ModelConfig& config,
                          ResolvedJob& job);

/// Refuses a narrower stock model that its family does not have, and maps for models that the code
/// of an output with maps does not compute. The widths of the job must be set.
void check_output_form(const ModelConfig& config, const ResolvedJob& job);

}  // namespace dotresize
