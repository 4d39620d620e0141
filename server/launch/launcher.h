#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/launch/attempt.h"
#include "server/launch/kubernetes_api.h"
#include "server/schedule/heartbeats.h"
#include "server/store/job_store.h"
#include "server/store/state_dir.h"

namespace dotresize {

/// Starts the processes of a job's attempts, watches them and ends them. Nothing about an attempt
/// is kept in memory alone: a launcher of a later server knows it as well. Used by one thread.
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// Throws ProgramMissing if this machine lacks what any job needs.
  virtual void require_ready() const = 0;
  /// Why the worker cannot run here at all, whatever its job is; empty if it can, or if it runs
  /// elsewhere. Takes as long as its start.
  virtual std::string worker_fault() const { return ""; }
  /// Starts `job.attempt()`, which sees `job.gpus()` alone. Throws if that is not possible; then
  /// nothing runs.
  virtual void launch(const v1::Job& job, const std::string& token) = 0;
  virtual AttemptStatus check(const v1::Job& job) = 0;
  /// After kRestarted: prepares the attempt after this one for the processes that are being
  /// started, and returns its secret.
  virtual std::string prepare_restart(const v1::Job& job);
  /// Asks the attempt to end, also once more. False if it cannot be asked (yet).
  virtual bool stop(const v1::Job& job) = 0;
  /// For an attempt that has vanished: kills the processes left of it. True if there were none.
  virtual bool clear_leftovers(const v1::Job& job) = 0;
  /// Removes the secret of an attempt without processes, and what it has left outside of its folder
  /// and output.
  virtual void clean_up(const v1::Job& job) = 0;
  /// The end of what this attempt has written.
  virtual std::string log_tail(const v1::Job& job) = 0;
  /// Which program starts several ranks.
  virtual std::string starter() const { return "mpirun"; }
};

/// The variables of this process's environment, "NAME=value", that a job's processes see.
std::vector<std::string> inherited_environment();

/// How much of the end of a job's log is read for why it has failed.
inline constexpr size_t kLogTailBytes = size_t{16} * 1024;

/// Writes what all attempts of the job share, its job file, and returns that.
std::filesystem::path write_job_file(const StateDir& state, const v1::Job& job);

/// How ranks on other machines reach the Workers service.
struct RemoteWorkers {
  std::string address;             ///< HOST:PORT; empty: not at all
  std::string ca;                  ///< PEM of the authority of its certificate; empty: no TLS
  std::vector<std::string> roots;  ///< where ranks may read and write; none: anywhere
};

/// Writes what the ranks of this attempt need to call the server (base/attempt_file.h).
void write_attempt_file(const std::filesystem::path& file, const RemoteWorkers& server,
                        const std::string& job_id, int attempt, const std::string& token);

/// How jobs are given to Slurm.
struct SlurmOptions {
  std::vector<std::string> arguments;  ///< of sbatch, after our own
  int cpus = 1;                        ///< of a rank
  std::chrono::seconds poll{5};        ///< between questions to Slurm, of all jobs at once
};

/// How jobs are given to Kubernetes.
struct KubernetesOptions {
  KubernetesAccess access;             ///< what is empty is that of the pod that this is
  std::filesystem::path job_template;  ///< see read_mpi_job_template (job/manifest/mpi_job.h)
  int cpus = 1;                        ///< of a rank
  std::chrono::seconds poll{5};        ///< between questions, of all jobs at once
};

/// What launchers are made of; what it refers to outlives them.
struct LauncherContext {
  const StateDir& state;
  JobStore& store;
  const Heartbeats& heartbeats;
  mode_t umask;             ///< of what jobs write
  std::string coordinator;  ///< where ranks on this machine reach the Workers service
  RemoteWorkers remote;
  SlurmOptions slurm;
  KubernetesOptions kubernetes;
  std::chrono::seconds external_timeout{0};  ///< for the first call of an attempt; 0: any time
};

/// A launcher for each value of `resources.launcher`.
class Launchers {
 public:
  /// `offered`: those that jobs may have. Attempts of others are followed to their end.
  Launchers(const LauncherContext& context, const std::vector<v1::Resources::Launcher>& offered);

  /// The one that starts the job's ranks. Throws std::invalid_argument if there is none.
  Launcher& of(const v1::Job& job);
  /// Throws ProgramMissing if one that is offered is not ready.
  void require_ready() const;

 private:
  std::map<v1::Resources::Launcher, std::unique_ptr<Launcher>> launchers_;
  std::vector<v1::Resources::Launcher> offered_;
};

}  // namespace dotresize
