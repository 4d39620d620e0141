#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Amounts of what jobs take of a machine.
struct Amounts {
  int64_t ranks = 0;   ///< MPI processes
  int64_t gpus = 0;    ///< each of one rank alone
  int64_t memory = 0;  ///< bytes of the host
};

Amounts operator+(const Amounts& a, const Amounts& b);
/// Nothing becomes negative.
Amounts operator-(const Amounts& a, const Amounts& b);

/// Whether all of `need` is in `free`.
bool fits(const Amounts& need, const Amounts& free);

/// What becomes free, after so many seconds.
struct Release {
  double seconds = 0.0;
  Amounts amounts;
};

/// Seconds after which `need` is free, if nobody takes anything before; nothing if never.
std::optional<double> seconds_until_free(const Amounts& need, Amounts free,
                                         std::vector<Release> releases);

/// What is missing: "4 GPUs (1 free)", for `where` "free". `need` does not fit.
std::string shortage(const Amounts& need, const Amounts& free, const std::string& where);

v1::ResourceAmounts to_message(const Amounts& resources);

/// MPI ranks of a job.
int ranks_of(const v1::JobSpec& spec);

/// Ranks that the job has at a time: of a sweep those of all jobs that it runs side by side.
int ranks_at_once(const v1::Job& job);

/// What there is on this machine for jobs.
struct Machine {
  Amounts capacity;
  bool memory_declared = false;   ///< jobs must keep to it
  std::vector<std::string> gpus;  ///< as CUDA_VISIBLE_DEVICES names them
  /// What may start jobs, here (local) or elsewhere; the first one those that ask for none.
  std::vector<v1::Resources::Launcher> launchers = {v1::Resources::local};

  bool offers(v1::Resources::Launcher launcher) const;
};

/// The GPUs that CUDA_VISIBLE_DEVICES of this process lists, or else those that the driver has a
/// device file for: /dev/nvidia0 ... `count`: the first so many of that list, or 0 to count-1;
/// negative: all that are found. Throws InputError if more are asked for than are listed.
std::vector<std::string> find_gpus(int count);

/// The GPUs that such a job takes: one a rank, and with `auto` none if there are not so many.
int64_t gpus_needed(v1::Resources::Device device, int64_t ranks, const Amounts& capacity);

/// "0,1" as the GPUs that it lists, and the other way round.
std::vector<std::string> split_gpus(const std::string& list);
std::string join_gpus(const std::vector<std::string>& gpus);

/// The part of this machine that a launched job has; none if it runs elsewhere or only pushes its
/// output.
Amounts amounts_of(const v1::Job& launched);

/// Who has which of a machine's resources. Those of jobs that an earlier server has launched count
/// too, also if they are more than there are now; those that run elsewhere do not.
class Leases {
 public:
  /// `launched`: the jobs that have processes.
  Leases(const Machine& machine, const std::vector<v1::Job>& launched);

  Amounts free() const { return machine_.capacity - used_; }
  const Amounts& used() const { return used_; }
  /// GPUs that nobody has, in the machine's order. There must be so many.
  std::vector<std::string> take(const Amounts& need);

 private:
  const Machine& machine_;
  Amounts used_;
  std::vector<std::string> free_gpus_;
};

}  // namespace dotresize
