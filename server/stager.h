#pragma once

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "server/job_store.h"
#include "server/path_policy.h"
#include "server/resources.h"

namespace dotresize {

/// Fetches what queued jobs read from elsewhere, on one thread of its own, one job after the other,
/// and plans them then: until that they are not started. What is still to be fetched is in the job
/// table, and how far a download is in the cache: a later server goes on.
class Stager {
 public:
  /// All outlive it.
  Stager(JobStore& store, const PathPolicy& paths, const Machine& machine);
  /// Breaks off a download.
  ~Stager();
  Stager(const Stager&) = delete;
  Stager& operator=(const Stager&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  struct Retry {
    int attempts = 0;
    Clock::time_point next;
  };

  void loop(const std::stop_token& stop);
  void stage_all(const std::stop_token& stop);
  void stage(const v1::Job& job, const std::stop_token& stop);
  std::vector<v1::FetchedFile> fetch_all(const v1::Job& job, const std::stop_token& stop);
  bool is_queued(const std::string& id) const;
  /// Runs `command`, until the job is cancelled.
  TransferResult transfer(const v1::Job& job, const std::vector<std::string>& command,
                          const std::stop_token& stop);
  /// Fails the job, or lets it wait for another try.
  void take_fault(const v1::Job& job, const TransferError& error);
  void fail(const v1::Job& job, const std::string& code, const std::string& message);
  /// Nothing of a job that has ended is kept in the cache.
  void release_ended();

  JobStore& store_;
  const PathPolicy& paths_;
  const Machine& machine_;
  std::map<std::string, Retry> retries_;
  std::map<std::string, std::vector<HeldCopy>> held_;  ///< by job
  std::jthread thread_;                                ///< last: it uses all the others
};

}  // namespace dotresize
