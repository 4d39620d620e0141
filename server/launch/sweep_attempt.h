#pragma once

namespace dotresize {

/// `dotresize-server sweep FILE N DIR`, which LocalLauncher starts: runs the jobs of the sweep
/// file, N at a time with DIR as their shared memory, and tells the server how far they are.
/// argv[1] is "sweep". Returns the exit code: 0 if no job has failed.
int run_sweep_attempt(int argc, char** argv);

}  // namespace dotresize
