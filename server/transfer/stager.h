#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "job/remote/localized_job.h"
#include "server/access/path_policy.h"
#include "server/store/job_store.h"
#include "server/store/resources.h"
#include "server/store/trash.h"
#include "server/transfer/background_transfer.h"

namespace dotresize {

/// Fetches what queued jobs read from elsewhere, a few jobs at a time, and plans them then: they
/// are not started before. A thread of its own looks after the downloads. What is still to be
/// fetched is in the job table, and how far a download is in the cache: a later server goes on.
class Stager {
 public:
  /// All outlive it.
  Stager(JobStore& store, const PathPolicy& paths, const Machine& machine, Trash& trash);
  /// Breaks off the downloads.
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
    std::vector<v1::FetchedFile> files;            ///< that are here
    std::vector<HeldCopy> held;                    ///< the same in the cache
    std::unique_ptr<BackgroundTransfer> transfer;  ///< last: it writes the others
  };

  void loop(const std::stop_token& stop);
  /// Copies of jobs that an earlier server has fetched.
  void hold_again();
  /// Clears the cache of outputs that an earlier server has pushed and then not removed.
  void discard_pushed();
  /// Nothing of a job that has ended is kept in the cache.
  void release_ended();
  void begin_next();
  void begin(const v1::Job& job);
  void follow_all();
  /// Plans the job, and lets it start.
  void finish(Staging& staging);
  /// Fails the job, or lets it wait for another try.
  void take_fault(const v1::Job& job, const TransferError& error);
  void fail(const v1::Job& job, const std::string& code, const std::string& message);
  bool is_queued(const std::string& id) const;
  /// Refuses the place of an output that a failed job has left to be pushed, and clears it of what
  /// was pushed.
  void free_output(const v1::Job& job);

  JobStore& store_;
  const PathPolicy& paths_;
  const Machine& machine_;
  Trash& trash_;
  std::map<std::string, Retry> retries_;               ///< by job, as the next two
  std::map<std::string, std::vector<HeldCopy>> held_;  ///< of jobs that have all of it
  std::map<std::string, std::unique_ptr<Staging>> staged_;
  std::jthread thread_;  ///< last: it uses all the others
};

}  // namespace dotresize
