#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files/output_owner.h"
#include "dotresize/v1/jobs.pb.h"
#include "server/launch/attempt.h"
#include "server/launch/heartbeats.h"
#include "server/launch/outcome.h"
#include "server/store/job_store.h"
#include "server/store/state_dir.h"

namespace dotresize {

/// Things that the server gives the processes of an attempt, beside the job.
struct AttemptGrant {
  std::string token;    ///< secret with which they call the server
  OutputRights rights;  ///< over directories that exist
};

/// Starts, watches and ends the processes of a job's attempts. All lasting state is on disk, so the
/// launcher of a later server knows the attempts as well. Not thread-safe.
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// Throws ProgramMissing if this machine lacks something that every job needs.
  virtual void require_ready() const = 0;
  /// Starts attempt `job.attempt()`, which sees only the GPUs `job.gpus()`. If it throws, nothing
  /// runs.
  virtual void launch(const v1::Job& job, const AttemptGrant& grant) = 0;
  virtual AttemptStatus check(const v1::Job& job) = 0;
  /// Asks the attempt to end; may be repeated. Returns false if it cannot be asked (yet).
  virtual bool stop(const v1::Job& job) = 0;
  /// Kills the remaining processes of a vanished attempt on this machine. Returns true if there
  /// were none.
  virtual bool clear_leftovers(const v1::Job&) { return true; }
  /// Removes the secret of an attempt without processes, and its files outside its folder and
  /// output.
  virtual void clean_up(const v1::Job& job) = 0;
  /// Returns the end of this attempt's log; "" if the ranks write to somebody else.
  virtual std::string log_tail(const v1::Job&) { return ""; }
  /// Name of what starts several ranks, for texts.
  virtual std::string starter() const { return kMpirun; }
};

/// Variables of this process's environment, "NAME=value", that a job's processes get.
std::vector<std::string> inherited_environment();

/// Size of the log's tail that is searched for the cause of a failure.
inline constexpr size_t kLogTailBytes = size_t{16} * 1024;

/// Writes the job file, which all attempts of the job share, and returns its path.
std::filesystem::path write_job_file(const StateDir& state, const v1::Job& job);

/// Access of ranks on other machines to the Workers service.
struct RemoteWorkers {
  std::string address;             ///< HOST:PORT; empty: no access
  std::string ca;                  ///< PEM of its certificate authority; empty: no TLS
  std::vector<std::string> roots;  ///< directories that ranks may use; empty: any
};

/// File with which ranks of this attempt call the server (base/files/attempt_file.h).
std::filesystem::path attempt_file(const StateDir& state, const v1::Job& job);
void write_attempt_file(const StateDir& state, const RemoteWorkers& server, const v1::Job& job,
                        const AttemptGrant& grant);

/// Command of each rank of the attempt that is not started by mpirun here.
std::vector<std::string> rank_command(const StateDir& state, const v1::Job& job);

/// Dependencies and options of the launchers; the referenced objects outlive them.
struct LauncherContext {
  const StateDir& state;
  JobStore& store;
  const Heartbeats& heartbeats;
  mode_t umask;             ///< umask of files that jobs write
  std::string coordinator;  ///< Workers service's address for local ranks
  RemoteWorkers remote;
};

std::unique_ptr<Launcher> make_local_launcher(const LauncherContext& context);
std::unique_ptr<Launcher> make_external_launcher(const LauncherContext& context);
/// Launcher of this name whose program starts, follows and cancels attempts.
std::unique_ptr<Launcher> make_contract_launcher(const LauncherContext& context,
                                                 const std::string& name,
                                                 const std::filesystem::path& program);

/// Launcher that jobs may use.
struct LauncherChoice {
  std::string name;
  std::filesystem::path program;  ///< see contract_launcher.cpp; empty: local or external
};

/// Launcher for ranks that a person starts.
inline constexpr char kExternalLauncher[] = "external";

/// The launchers of jobs, by name.
class Launchers {
 public:
  /// `offered`: launchers that new jobs may use.
  Launchers(const LauncherContext& context, const std::vector<LauncherChoice>& offered);

  /// Launcher that starts the job's ranks. Existing attempts of one that is not offered are
  /// followed to their end, if its program is where those of the package are.
  Launcher& of(const v1::Job& job);
  /// Throws ProgramMissing if an offered launcher is not ready.
  void require_ready() const;

 private:
  const LauncherContext context_;
  std::map<std::string, std::unique_ptr<Launcher>> launchers_;
  std::vector<LauncherChoice> offered_;
};

/// File of the package's launcher of this name, share/dotresize/launchers/NAME beside bin/.
std::filesystem::path packaged_launcher(const std::string& name);

}  // namespace dotresize
