#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "server/http/webhooks.h"
#include "server/store/job_store.h"

namespace dotresize {

/// Tells those that jobs have named that these have ended, on one thread of its own. What is to be
/// told, and how far that is, is in the job table: a later server goes on. Whoever does not answer
/// is asked again later, and keeps others waiting for one call at most.
class Notifier {
 public:
  /// All outlive it. `secret` is read for each message.
  Notifier(JobStore& store, const WebhookPolicy& policy, std::filesystem::path secret);
  /// Breaks off a call.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  void loop(const std::stop_token& stop);
  void tell_all(const std::stop_token& stop);
  void tell(const v1::Job& job, const std::stop_token& stop);

  JobStore& store_;
  const WebhookPolicy& policy_;
  const std::filesystem::path secret_;
  std::map<std::string, Clock::time_point> silent_until_;  ///< by origin
  std::jthread thread_;                                    ///< last: it uses all the others
};

}  // namespace dotresize
