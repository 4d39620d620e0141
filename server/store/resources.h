#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Resources of a machine that jobs take.
struct Amounts {
  int64_t ranks = 0;   ///< MPI processes
  int64_t gpus = 0;    ///< one rank per GPU
  int64_t memory = 0;  ///< host memory, bytes
};

Amounts operator+(const Amounts& a, const Amounts& b);
/// Subtracts; clamps each amount at 0.
Amounts operator-(const Amounts& a, const Amounts& b);

bool fits(const Amounts& need, const Amounts& free);

/// Resources that become free after `seconds`.
struct Release {
  double seconds = 0.0;
  Amounts amounts;
};

/// Returns the seconds until `need` is free, if nothing else is taken before; nullopt if never.
std::optional<double> seconds_until_free(const Amounts& need, Amounts free,
                                         std::vector<Release> releases);

/// Describes what is missing: "4 GPUs (1 free)" for `where` "free". `need` must not fit.
std::string shortage(const Amounts& need, const Amounts& free, const std::string& where);

v1::ResourceAmounts to_message(const Amounts& resources);

/// Returns the ranks that the job runs at a time: for a sweep, those of all its parallel jobs.
int ranks_at_once(const v1::Job& job);

/// Launcher that runs jobs with mpirun on this machine.
inline constexpr char kLocalLauncher[] = "local";

/// Returns the name of the job's launcher.
std::string launcher_of(const v1::Job& job);

/// Returns true if the job's ranks run on this machine.
bool runs_here(const v1::Job& job);

/// Resources of this machine for jobs.
struct Machine {
  Amounts capacity;
  bool memory_declared = false;   ///< --memory was given
  std::vector<std::string> gpus;  ///< names as in CUDA_VISIBLE_DEVICES
  /// Launchers that jobs may use, here (local) or elsewhere; the first one is used for jobs that
  /// ask for none.
  std::vector<std::string> launchers = {kLocalLauncher};

  bool offers(const std::string& launcher) const;
};

/// Returns the names of the GPUs for jobs: those of this process's CUDA_VISIBLE_DEVICES, or, if it
/// is not set, the numbers from 0 for as many as there are files /dev/nvidia0 ...
std::vector<std::string> find_gpus();

/// Returns the GPUs that a job takes: one per rank; none on `cpu`, nor with `auto` if there are
/// fewer GPUs than ranks.
int64_t gpus_needed(v1::Resources::Device device, int64_t ranks, const Amounts& capacity);

/// Splits "0,1" into names.
std::vector<std::string> split_gpus(const std::string& list);

/// Returns the resources of this machine that a launched job holds: none if it runs elsewhere or
/// only pushes its output.
Amounts amounts_of(const v1::Job& launched);

/// Assignment of a machine's resources to jobs. Jobs that an earlier server launched count too,
/// even if they exceed the present capacity; jobs that run elsewhere do not count.
class Leases {
 public:
  /// `launched`: jobs that have processes.
  Leases(const Machine& machine, const std::vector<v1::Job>& launched);

  Amounts free() const { return machine_.capacity - used_; }
  const Amounts& used() const { return used_; }
  /// Takes the resources, and returns the GPUs, in the machine's order. `need` must be free.
  std::vector<std::string> take(const Amounts& need);

 private:
  const Machine& machine_;
  Amounts used_;
  std::vector<std::string> free_gpus_;
};

}  // namespace dotresize
