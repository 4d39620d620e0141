#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "server/launch/launcher.h"
#include "server/launch/launcher_queue.h"

namespace dotresize {

/// Has a launcher's program start, follow and cancel attempts (docs/server.md, Launchers). The
/// ranks find the state directory and the worker under the same paths. What is submitted is written
/// to the attempt's folder first, so a later server submits it or finds it submitted. An attempt
/// that has ended is cancelled, and over only when the launcher says once more that it has ended,
/// or no longer knows it: no process of it runs beside the next attempt.
class ContractLauncher final : public Launcher {
 public:
  ContractLauncher(const LauncherContext& context, const std::string& name,
                   const std::filesystem::path& program);

  /// Also throws ProgramMissing while the launcher does not answer.
  void require_ready() const override;
  /// Queues the attempt for submission; does not wait for it.
  void launch(const v1::Job& job, const AttemptGrant& grant) override;
  AttemptStatus check(const v1::Job& job) override;
  bool stop(const v1::Job& job) override;
  void clean_up(const v1::Job& job) override;
  std::string log_tail(const v1::Job& job) override;
  std::string starter() const override { return "the job under " + name_; }

 private:
  /// Content of attempt-N/launcher.json.
  struct Record {
    std::string request;  ///< JSON object for `submit`
    int64_t log_offset = 0;
    bool fresh = false;  ///< made by this server; not stored
    bool submitted = false;
    std::optional<LauncherAnswer> end;  ///< the first answer that it has ended
  };
  using Key = std::pair<std::string, int>;  ///< job and attempt

  /// Returns null if the attempt has not been launched. A damaged record is logged, and is that of
  /// a lost attempt.
  Record* record_of(const v1::Job& job);
  void save(const v1::Job& job, const Record& record) const;
  LauncherQueue::Order order_of(const v1::Job& job, const Record& record) const;

  const std::string name_;
  const std::filesystem::path program_;
  const StateDir& state_;
  const mode_t umask_;
  const RemoteWorkers server_;
  std::map<Key, Record> records_;  ///< cache of read records
  LauncherQueue queue_;
};

}  // namespace dotresize
