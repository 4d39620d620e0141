#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/launch/slurm_jobs.h"

namespace dotresize {

/// Asks Slurm, on a thread of its own, how the jobs stand that are followed: one squeue for all of
/// them, and one sacct for those that squeue does not know any more. Slurm may answer late or not
/// at all: nobody waits for it. Safe to use from any thread.
class SlurmQueue {
 public:
  explicit SlurmQueue(std::chrono::seconds poll);
  ~SlurmQueue();
  SlurmQueue(const SlurmQueue&) = delete;
  SlurmQueue& operator=(const SlurmQueue&) = delete;

  struct Answer {
    bool asked = false;  ///< Slurm has answered a question that came after the first find()
    std::optional<SlurmJob> job;  ///< none: it knows no such job
  };

  /// How the job of this name stands. Follows it from now on.
  Answer find(const std::string& name);
  /// Has the job of this name cancelled, again and again until it has ended: also one that Slurm
  /// gets later.
  void cancel(const std::string& name);
  void forget(const std::string& name);
  /// Why Slurm has not answered the last question; empty if it has.
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
  std::map<std::string, Entry> entries_;  ///< by name
  std::string fault_;
  bool stopping_ = false;
  bool hurry_ = false;  ///< there is something to cancel
  std::thread thread_;  ///< from the first find() on
};

}  // namespace dotresize
