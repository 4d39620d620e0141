#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "job/remote/localized_job.h"
#include "server/access/access.h"
#include "server/access/path_policy.h"
#include "server/admission/known_models.h"
#include "server/store/job_store.h"
#include "server/store/resources.h"
#include "server/store/trash.h"
#include "server/transfer/background_transfer.h"

namespace dotresize {

/// Fetches the remote inputs of queued jobs, a few jobs at a time, and then plans the jobs; they do
/// not start before. A separate thread polls the downloads. The job table knows the inputs still to
/// be fetched, and the cache holds partial downloads, so a later server goes on.
class Stager {
 public:
  /// All arguments outlive the stager.
  Stager(JobStore& store, const PathPolicy& paths, const Access& access, const Machine& machine,
         KnownModels& models, Trash& trash);
  /// Stops the downloads and waits for their ends.
  ~Stager() = default;
  Stager(const Stager&) = delete;
  Stager& operator=(const Stager&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  struct Retry {
    int attempts = 0;
    Clock::time_point next;
  };
  /// A job whose files are being fetched.
  struct Staging {
    v1::Job job;
    std::vector<v1::FetchedFile> files;            ///< files fetched so far
    std::vector<HeldCopy> held;                    ///< their copies in the cache
    std::unique_ptr<BackgroundTransfer> transfer;  ///< last member: it writes the others
  };

  void loop(const std::stop_token& stop);
  void begin_next();
  void begin(const v1::Job& job);
  /// Plans the job and lets it start. After a fault of its transfer, or of planning, fails the job
  /// or schedules another try.
  void finish(Staging& staging, std::optional<TransferError> fault);
  bool is_queued(const std::string& id) const;

  JobStore& store_;
  const PathPolicy& paths_;
  const Access& access_;
  const Machine& machine_;
  KnownModels& models_;
  Trash& trash_;
  std::map<std::string, Retry> retries_;               ///< keyed by job id, like the next two
  std::map<std::string, std::vector<HeldCopy>> held_;  ///< jobs with all inputs fetched
  std::map<std::string, std::unique_ptr<Staging>> staged_;
  std::jthread thread_;  ///< last member: it uses all the others
};

}  // namespace dotresize
