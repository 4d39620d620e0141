#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "dotresize/v1/jobs.pb.h"
#include "server/launch/kubernetes/kubernetes_queue.h"
#include "server/launch/launcher.h"

namespace dotresize {

/// Checks the options. Throws InputError, naming the option, if no job could be submitted.
void check_kubernetes(const KubernetesOptions& options, const std::filesystem::path& state);

/// Runs jobs as MPIJobs, one for each attempt. Their pods have the state directory under the same
/// path. The MPIJob's manifest is written to the attempt's folder before it is submitted, so a
/// later server creates it or finds it created. A lost attempt is over only when its MPIJob is
/// gone, so it cannot run beside the next one.
class KubernetesLauncher final : public Launcher {
 public:
  explicit KubernetesLauncher(const LauncherContext& context);

  void require_ready() const override;
  /// Queues the MPIJob for creation; does not wait for the API.
  void launch(const v1::Job& job, const std::string& token) override;
  AttemptStatus check(const v1::Job& job) override;
  bool stop(const v1::Job& job) override;
  bool clear_leftovers(const v1::Job& job) override;
  void clean_up(const v1::Job& job) override;
  std::string log_tail(const v1::Job& job) override;

 private:
  /// Content of attempt-N/kubernetes.json.
  struct Record {
    KubernetesQueue::Order order;
    int64_t log_offset = 0;
    std::string removal;  ///< reason for deleting the MPIJob; empty: not deleted
  };
  using Key = std::pair<std::string, int>;  ///< job and attempt

  /// Returns null if the attempt has not been launched, or if its record is damaged, which is
  /// logged.
  Record* record_of(const v1::Job& job);
  void save(const v1::Job& job, const Record& record) const;
  Record make_record(const v1::Job& job, const std::string& token) const;
  std::filesystem::path attempt_file(const v1::Job& job) const;
  std::filesystem::path record_file(const v1::Job& job) const;
  /// Deletes the MPIJob; a later server goes on with that.
  void remove(const v1::Job& job, Record& record, const std::string& why);
  /// Status according to `record` and the API's answer.
  AttemptStatus standing(const v1::Job& job, const Record& record,
                         const KubernetesQueue::Answer& answer);
  /// Status of an attempt that has ended as `status` says. A lost attempt stays kWaiting until its
  /// pods are gone.
  AttemptStatus ended(const v1::Job& job, Record& record, AttemptStatus status);

  const StateDir& state_;
  const RemoteWorkers server_;
  const KubernetesOptions options_;
  KubernetesQueue queue_;
  std::map<Key, Record> records_;  ///< cache of read records
};

}  // namespace dotresize
