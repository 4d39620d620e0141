#pragma once

#include "worker/commands/run/job_calibration.h"

namespace dotresize {

/// Writes dotresize/maps.safetensors of an output with maps: `NAME.map` [d, k] and `NAME.inverse`
/// [k, d] of each junction, in float32, with the report's junction names. Collective.
void write_maps(JobContext& run, const TokenWindows& calibration, OpenedJournal& opened,
                const Calibrated& calibrated);

}  // namespace dotresize
