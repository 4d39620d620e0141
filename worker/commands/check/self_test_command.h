#pragma once

#include <optional>

#include "job/plan/device.h"
#include "worker/commands/run/ranks/rank_links.h"

namespace dotresize {

/// Runs `dotresize-worker self-test`, alone or as the ranks of mpirun: a job's start up to its
/// first work, and the self-test of devices and links, in the dtype of `compute_dtype: auto`. Rank
/// 0 prints the result. `device`: absent means `auto`. `transport`: see run_job_command. Returns
/// the exit code; a rank that fails ends all others.
int self_test_command(std::optional<DeviceKind> device, bool json, const MakeTransport& transport);

}  // namespace dotresize
