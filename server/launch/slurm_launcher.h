#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/launch/launcher.h"
#include "server/launch/slurm_queue.h"

namespace dotresize {

/// Runs jobs as batch jobs of Slurm, whose nodes have the state directory and the worker under the
/// same names. If Slurm queues a batch job again, that is an attempt of its own here: its ranks
/// have another token than those of before, which may live on somewhere. The batch job's name leads
/// from an attempt to it, also if the server was killed before sbatch has answered.
class SlurmLauncher final : public Launcher {
 public:
  explicit SlurmLauncher(const LauncherContext& context);

  void require_ready() const override;
  /// Does not wait for sbatch.
  void launch(const v1::Job& job, const std::string& token) override;
  AttemptStatus check(const v1::Job& job) override;
  std::string prepare_restart(const v1::Job& job) override;
  bool stop(const v1::Job& job) override;
  bool clear_leftovers(const v1::Job& job) override;
  void clean_up(const v1::Job& job) override;
  std::string log_tail(const v1::Job& job) override;
  std::string starter() const override { return "srun"; }

 private:
  /// attempt-N/slurm.json: which start of which batch job the attempt is.
  struct Record {
    int submitted_by = 0;  ///< the attempt that has given the batch job to Slurm
    int restart = 0;       ///< of that job: SLURM_RESTART_COUNT
    int64_t log_offset = 0;
  };

  /// Nothing if the attempt has not been launched. For a damaged file, which is logged, what most
  /// attempts have: the first start of the batch job that the attempt itself has submitted.
  std::optional<Record> record_of(const v1::Job& job);
  /// Writes that of this attempt into its folder, which is made.
  void write_record(const v1::Job& job, int attempt, int submitted_by, int restart) const;
  /// What the ranks of a start of the batch job read, which its script waits for.
  std::filesystem::path start_file(const v1::Job& job, const Record& record) const;
  std::vector<std::string> sbatch_command(const v1::Job& job,
                                          const std::filesystem::path& dir) const;
  /// Of an attempt that Slurm has no job of.
  AttemptStatus missing(const v1::Job& job, const Record& record) const;
  void reap();

  const StateDir& state_;
  const mode_t umask_;
  const RemoteWorkers server_;
  const SlurmOptions options_;
  SlurmQueue queue_;
  std::map<std::pair<std::string, int>, Record> records_;  ///< read already, by job and attempt
  std::set<std::string> submitted_;                        ///< names of which sbatch has ended
  std::vector<pid_t> children_;
};

}  // namespace dotresize
