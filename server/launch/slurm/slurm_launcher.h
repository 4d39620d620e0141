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
#include "server/launch/slurm/slurm_queue.h"

namespace dotresize {

/// Runs jobs as Slurm batch jobs. All nodes have the state directory and the worker under the same
/// paths. A batch job that Slurm requeues becomes a new attempt here: its ranks get another token
/// than the earlier ones, which may still be alive somewhere. The batch job is found by its name,
/// even if the server was killed before sbatch answered.
class SlurmLauncher final : public Launcher {
 public:
  explicit SlurmLauncher(const LauncherContext& context);

  void require_ready() const override;
  /// Starts sbatch; does not wait for it.
  void launch(const v1::Job& job, const std::string& token) override;
  AttemptStatus check(const v1::Job& job) override;
  std::string prepare_restart(const v1::Job& job) override;
  bool stop(const v1::Job& job) override;
  bool clear_leftovers(const v1::Job& job) override;
  void clean_up(const v1::Job& job) override;
  std::string log_tail(const v1::Job& job) override;
  std::string starter() const override { return "srun"; }

 private:
  /// attempt-N/slurm.json: the attempt's batch job, and its start number there.
  struct Record {
    int submitted_by = 0;  ///< attempt that submitted the batch job
    int restart = 0;       ///< the batch job's SLURM_RESTART_COUNT
    int64_t log_offset = 0;
  };

  /// Returns nullopt if the attempt has not been launched. A damaged file is logged and replaced by
  /// the usual record: the first start of the batch job that this attempt submitted.
  std::optional<Record> record_of(const v1::Job& job);
  /// Writes the record of `attempt` into its folder, which is created.
  void write_record(const v1::Job& job, int attempt, int submitted_by, int restart) const;
  /// Attempt file for the ranks of one start of the batch job; the batch script waits for it.
  std::filesystem::path start_file(const v1::Job& job, const Record& record) const;
  std::vector<std::string> sbatch_command(const v1::Job& job,
                                          const std::filesystem::path& dir) const;
  /// Status of an attempt whose batch job Slurm does not know.
  AttemptStatus missing(const v1::Job& job, const Record& record) const;
  void reap();

  const StateDir& state_;
  const mode_t umask_;
  const RemoteWorkers server_;
  const SlurmOptions options_;
  SlurmQueue queue_;
  std::map<std::pair<std::string, int>, Record> records_;  ///< cache, by job and attempt
  std::set<std::string> submitted_;                        ///< names whose sbatch has ended
  std::vector<pid_t> children_;
};

}  // namespace dotresize
