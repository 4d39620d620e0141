#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/doctor/check.h"

namespace dotresize {

// Checks by the worker, started as jobs start it, of itself and its devices.

/// Check::part of the self-test of all GPUs.
inline constexpr char kGpuSelfTest[] = "GPUs";

/// Checks that the worker starts.
Check worker_check();

/// Checks that mpirun starts two ranks on this machine that pass the self-test on the CPU. Requires
/// a worker that starts.
Check mpi_check();

/// Results of `dotresize-worker probe`, a check for each part, Python first. If the probe fails,
/// the only result is a fault of the worker.
std::vector<Check> probe_checks();

/// Checks from a probe's JSON document. `library_path`: the value of LD_LIBRARY_PATH.
Check python_check(const nlohmann::json& probe);
std::vector<Check> gpu_checks(const nlohmann::json& probe, const std::string& library_path);

}  // namespace dotresize
