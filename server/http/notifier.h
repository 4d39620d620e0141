#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "base/errors.h"
#include "dotresize/v1/jobs.pb.h"
#include "server/access/access.h"
#include "server/access/webhook_policy.h"
#include "server/store/job_store.h"

namespace dotresize {

/// Sends webhook messages about ended jobs to the URLs that the jobs name, on its own thread.
/// Pending messages and their attempts are in the job table, so a later server goes on. A receiver
/// that does not answer is called again later; it delays the others by one call at most.
class Notifier {
 public:
  /// `store`, `policy` and `access` outlive the notifier. The file `secret` is read for each
  /// message.
  Notifier(JobStore& store, const WebhookPolicy& policy, const Access& access,
           std::filesystem::path secret);
  /// Stops a call that is under way.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  /// A fault if the job's URL must not be called any more.
  Verdict check_allowed(const v1::Job& job) const;
  void loop(const std::stop_token& stop);
  void tell(const v1::Job& job, const std::stop_token& stop);

  JobStore& store_;
  const WebhookPolicy& policy_;
  const Access& access_;
  const std::filesystem::path secret_;
  std::map<std::string, Clock::time_point> silent_until_;  ///< keyed by URL origin
  std::jthread thread_;                                    ///< last member: it uses all the others
};

}  // namespace dotresize
