#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "server/http/webhooks.h"
#include "server/store/job_store.h"

namespace dotresize {

/// Sends webhook messages about ended jobs to the URLs that the jobs name, on its own thread.
/// Pending messages and their attempts are in the job table, so a later server goes on. A receiver
/// that does not answer is called again later; it delays the others by one call at most.
class Notifier {
 public:
  /// `store` and `policy` outlive the notifier. The file `secret` is read for each message.
  Notifier(JobStore& store, const WebhookPolicy& policy, std::filesystem::path secret);
  /// Stops a call that is under way.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  void loop(const std::stop_token& stop);
  void tell(const v1::Job& job, const std::stop_token& stop);

  JobStore& store_;
  const WebhookPolicy& policy_;
  const std::filesystem::path secret_;
  std::map<std::string, Clock::time_point> silent_until_;  ///< keyed by URL origin
  std::jthread thread_;                                    ///< last member: it uses all the others
};

}  // namespace dotresize
