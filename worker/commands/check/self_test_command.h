#pragma once

#include <optional>

#include "job/plan/device.h"
#include "worker/commands/run/rank_links.h"

namespace dotresize {

/// `dotresize-worker self-test`, alone or as the ranks of mpirun: what the ranks of a job do before
/// any work, and the self-test of devices and links, in the dtype that `compute_dtype: auto` is.
/// Rank 0 prints the result. `device`: none is `auto`; `transport` as in run_job_command. Returns
/// the exit code; a rank that fails ends all others.
int self_test_command(std::optional<DeviceKind> device, bool json, const MakeTransport& transport);

}  // namespace dotresize
