#pragma once

#include <cstdint>
#include <string>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// A message in the format of https://www.standardwebhooks.com.
struct WebhookMessage {
  std::string id;         ///< webhook-id
  int64_t time_s = 0;     ///< webhook-timestamp: Unix time of this attempt
  std::string body;       ///< JSON
  std::string signature;  ///< webhook-signature: "v1,BASE64"
};

/// Makes the message that this job has ended. `job` has ended.
WebhookMessage webhook_message(const v1::Job& job, int64_t time_s, const std::string& key);

}  // namespace dotresize
