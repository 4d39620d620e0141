#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/doctor/check.h"

namespace dotresize {

// What the worker, started as jobs start it, finds of itself and of its devices.

/// The part of the check that all GPUs have passed the self-test.
inline constexpr char kGpuSelfTest[] = "GPUs";

/// Whether it starts.
Check worker_check();

/// Whether mpirun starts two ranks on this machine that pass the self-test on the CPU. Only if the
/// worker starts.
Check mpi_check();

/// What `dotresize-worker probe` says: a check for each part, Python first. A worker that does not
/// say it is at fault itself.
std::vector<Check> probe_checks();

/// Those of a probe's document. `library_path`: the value of LD_LIBRARY_PATH.
Check python_check(const nlohmann::json& probe);
std::vector<Check> gpu_checks(const nlohmann::json& probe, const std::string& library_path);

}  // namespace dotresize
