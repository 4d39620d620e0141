#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "dotresize/v1/jobs.pb.h"
#include "server/launch/kubernetes_queue.h"
#include "server/launch/launcher.h"

namespace dotresize {

/// Throws InputError, naming the option, if no job could be given to Kubernetes.
void check_kubernetes(const KubernetesOptions& options, const std::filesystem::path& state);

/// Runs jobs as MPIJobs, one for each attempt, whose pods have the state directory under the same
/// name. What is to be created is in the attempt's folder first: a later server creates it, or
/// finds that it has been. An attempt that is lost is over only when its MPIJob is gone, so none
/// runs beside the next one.
class KubernetesLauncher final : public Launcher {
 public:
  explicit KubernetesLauncher(const LauncherContext& context);

  void require_ready() const override;
  /// Does not wait for the API.
  void launch(const v1::Job& job, const std::string& token) override;
  AttemptStatus check(const v1::Job& job) override;
  bool stop(const v1::Job& job) override;
  bool clear_leftovers(const v1::Job& job) override;
  void clean_up(const v1::Job& job) override;
  std::string log_tail(const v1::Job& job) override;

 private:
  /// attempt-N/kubernetes.json
  struct Record {
    KubernetesQueue::Order order;
    int64_t log_offset = 0;
    std::string removal;  ///< why this server has the MPIJob deleted; empty: it has not
  };
  using Key = std::pair<std::string, int>;  ///< job and attempt

  /// Null if the attempt has not been launched, or if its record is damaged, which is logged.
  Record* record_of(const v1::Job& job);
  void save(const v1::Job& job, const Record& record) const;
  Record make_record(const v1::Job& job, const std::string& token) const;
  std::filesystem::path attempt_file(const v1::Job& job) const;
  std::filesystem::path record_file(const v1::Job& job) const;
  /// Has the MPIJob deleted, also by a later server.
  void remove(const v1::Job& job, Record& record, const std::string& why);
  /// As `record` and the API's answer say.
  AttemptStatus standing(const v1::Job& job, const Record& record,
                         const KubernetesQueue::Answer& answer);
  /// Of an attempt that has ended as `status` says: if it was lost, not before its pods are gone.
  AttemptStatus ended(const v1::Job& job, Record& record, AttemptStatus status);

  const StateDir& state_;
  const RemoteWorkers server_;
  const KubernetesOptions options_;
  KubernetesQueue queue_;
  std::map<Key, Record> records_;  ///< read already
};

}  // namespace dotresize
