#pragma once

namespace dotresize {

/// Runs `dotresize-server sweep FILE N DIR`, which LocalLauncher starts: runs the jobs of the sweep
/// file, N at a time with DIR as their shared memory, and reports their progress to the server.
/// argv[1] is "sweep". Returns the exit code: 0 if no job has failed.
int run_sweep_attempt(int argc, char** argv);

}  // namespace dotresize
