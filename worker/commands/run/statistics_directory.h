#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/unique_fd.h"
#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "worker/calibration/journal.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// The directory of a job's `calibration.statistics`: `statistics.json`, which says what they are
/// of (statistics_fingerprint), and the entries of `junctions/` (worker/calibration/statistics.h).
/// It appears whole: until then it is `<directory>.partial`, from which a later job goes on, locked
/// against another one.
class StatisticsDirectory {
 public:
  /// Opens those that are there, also of a job that would save them, or begins new ones. Throws
  /// InputError naming the key: if there are none to be used, those that are there are of another
  /// model, tokens, basis or dtype, an entry is missing or damaged, or another job is writing them.
  /// Collective.
  StatisticsDirectory(Communicator& comm, const ResolvedJob& job, const ModelConfig& config,
                      const nlohmann::json& fingerprint);

  /// Whether all entries are there.
  bool whole() const { return whole_; }
  Journal& journal() { return *journal_; }
  /// Once they are: gives the directory its name. Collective.
  void publish(Communicator& comm);

 private:
  /// Both on rank 0. Whether the directory is there; and begins the unfinished one.
  bool find(const nlohmann::json& fingerprint);
  void begin(const nlohmann::json& fingerprint);
  void check_entries(Communicator& comm, const ModelConfig& config, bool shared_bases) const;

  const ResolvedJob& job_;
  std::filesystem::path dir_;
  std::filesystem::path partial_;
  bool whole_ = false;
  UniqueFd lock_;  ///< on the unfinished directory; rank 0
  std::optional<Journal> journal_;
};

}  // namespace dotresize
