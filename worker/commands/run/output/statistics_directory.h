#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/files/directory.h"
#include "base/files/output_owner.h"
#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "worker/calibration/storage/journal.h"
#include "worker/comm/communicator.h"
#include "worker/commands/run/output/file_hashes.h"
#include "worker/commands/run/output/unfinished_directory.h"

namespace dotresize {

/// Directory of a job's `calibration.statistics`: `statistics.json` with the fingerprint
/// (statistics_fingerprint), and the entries in `junctions/`
/// (worker/calibration/storage/statistics.h). It appears whole. Until then it is
/// `<directory>.partial`, locked against other jobs, from which a later job can resume.
class StatisticsDirectory {
 public:
  /// Opens existing statistics, even if the job would save new ones, or begins new ones. Throws
  /// InputError naming the key if statistics to be used do not exist, if existing ones belong to
  /// another model (`inputs`, see changed_input), tokens, basis or dtype, if an entry is missing or
  /// damaged, or if another job is writing them, or if `rights` (of rank 0) do not cover unfinished
  /// ones. Collective.
  StatisticsDirectory(Communicator& comm, const ResolvedJob& job, const ModelConfig& config,
                      const nlohmann::json& fingerprint, const InputStamps& inputs,
                      const OutputRights& rights);

  /// Returns the path by descriptor of unfinished statistics.
  std::filesystem::path directory() const { return unfinished_->path(); }
  /// True if all entries are there.
  bool whole() const { return whole_; }
  Journal& journal() { return *journal_; }
  /// Gives the complete directory its final name. Throws InputError naming the key if that is taken
  /// or cannot be written. Collective.
  void publish(Communicator& comm);

 private:
  /// find() and begin() run on rank 0. find() returns true if the directory exists; begin() begins
  /// the unfinished one.
  bool find(const nlohmann::json& fingerprint, const InputStamps& inputs);
  /// Opens existing statistics. Throws InputError if the directory has none.
  PinnedDirectory open_kept() const;
  void begin(const nlohmann::json& fingerprint, const InputStamps& inputs,
             const OutputRights& rights);
  void check_entries(Communicator& comm, const ModelConfig& config, bool shared_basis) const;

  const ResolvedJob& job_;
  std::filesystem::path dir_;
  bool whole_ = false;
  PinnedDirectory kept_;  ///< existing statistics
  /// Absent for existing statistics. Rank 0 holds its lock.
  std::optional<UnfinishedDirectory> unfinished_;
  std::optional<Journal> journal_;
};

}  // namespace dotresize
