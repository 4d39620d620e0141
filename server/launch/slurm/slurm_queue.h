#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/launch/slurm/slurm_jobs.h"

namespace dotresize {

/// Queries Slurm for the followed jobs on its own thread: one squeue for all of them, and one sacct
/// for those that squeue no longer knows. Slurm may answer late or not at all: no caller waits for
/// it. Thread-safe.
class SlurmQueue {
 public:
  explicit SlurmQueue(std::chrono::seconds poll);
  ~SlurmQueue();
  SlurmQueue(const SlurmQueue&) = delete;
  SlurmQueue& operator=(const SlurmQueue&) = delete;

  struct Answer {
    bool asked = false;           ///< Slurm has answered since the first find()
    std::optional<SlurmJob> job;  ///< nullopt: Slurm does not know it
  };

  /// Returns the state of the job of this name, and follows it from now on.
  Answer find(const std::string& name);
  /// Cancels the job of this name, retrying until it has ended, even one that Slurm gets later.
  void cancel(const std::string& name);
  void forget(const std::string& name);
  /// Error of the last query; empty if Slurm answered.
  std::string fault();

 private:
  struct Entry {
    Answer answer;
    bool cancel = false;
  };

  void loop();
  void ask(const std::vector<std::string>& names);
  void take(const std::vector<std::string>& names, const std::map<std::string, SlurmJob>& jobs);
  void cancel_unwanted();
  void set_fault(const std::string& fault);

  const std::chrono::seconds poll_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Entry> entries_;  ///< keyed by name
  std::string fault_;
  bool stopping_ = false;
  bool work_pending_ = false;  ///< something is to be cancelled
  std::thread thread_;         ///< started by the first find()
};

}  // namespace dotresize
