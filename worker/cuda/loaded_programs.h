#pragma once

#include "worker/cuda/gpu_program.h"

namespace dotresize {

/// The program, compiled for the device's architecture and loaded at its first use in this process,
/// where it stays. Thread-safe. Throws as GpuProgram does.
const GpuProgram& loaded_program(const CudaProgram& program, int device);

}  // namespace dotresize
