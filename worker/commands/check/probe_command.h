#pragma once

namespace dotresize {

/// Runs `dotresize-worker probe`: prints what this installation finds on this machine as a JSON
/// document for `dotresize doctor`: version, driver, GPUs, CUDA module with NCCL, Python. A fault
/// is a text in it, empty if all is well. Returns the exit code.
int probe_command();

}  // namespace dotresize
