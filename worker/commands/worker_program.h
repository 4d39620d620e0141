#pragma once

#include "worker/commands/run/ranks/rank_links.h"

namespace dotresize {

/// Runs the program dotresize-worker: one rank of a job under mpirun (or alone), and the commands
/// that look at one model. `transport`: see run_job_command. Returns the exit code.
int run_worker(int argc, char** argv, const MakeTransport& transport = nullptr);

}  // namespace dotresize
