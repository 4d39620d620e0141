#pragma once

/// Tells the MKL inside libtorch that it may choose its kernels by the processor's instructions.
/// The definition in a program takes the place of MKL's own, which is true on Intel's processors
/// alone: on AMD's with AVX-512, MKL would take kernels with AVX2, of less than half of the speed.
/// Returns MKL's own answer where AVX-512 is missing. Every program that computes with libtorch
/// links it (cmake/TorchTarget.cmake). A libtorch without MKL does not ask.
extern "C" int mkl_serv_intel_cpu_true();
