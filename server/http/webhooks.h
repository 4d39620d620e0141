#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/http/http_url.h"

namespace dotresize {

/// Whom the operator lets be told of the ends of jobs.
struct WebhookOptions {
  std::vector<std::string> prefixes;  ///< of URLs; none: nobody
  std::filesystem::path secret;       ///< file of the key that signs messages
};

/// Which URLs may be called. Safe to use from any thread.
class WebhookPolicy {
 public:
  /// Throws InputError for a prefix that is no URL, and for prefixes without a secret that can be
  /// used.
  explicit WebhookPolicy(const WebhookOptions& options);

  /// Checks the URL that a client asks for, if any. Throws INVALID_ARGUMENT for a text that is no
  /// URL, PERMISSION_DENIED for one that is not allowed.
  void require(const v1::JobOptions& options) const;
  /// Whether scheme, host and port are those of a prefix, and the path its own or one below it.
  bool allows(const HttpUrl& url) const;

 private:
  std::vector<HttpUrl> prefixes_;
};

/// A message as https://www.standardwebhooks.com has them.
struct WebhookMessage {
  std::string id;         ///< webhook-id
  int64_t time_s = 0;     ///< webhook-timestamp: of this attempt, Unix time
  std::string body;       ///< JSON
  std::string signature;  ///< webhook-signature: "v1,BASE64"
};

/// The key in the file: "whsec_" and the base64 of 24 to 64 bytes. Throws InputError for any other
/// content, and for a file that other users may read.
std::string read_webhook_key(const std::filesystem::path& file);

/// Tells that this job, which has ended, has done so.
WebhookMessage webhook_message(const v1::Job& job, int64_t time_s, const std::string& key);

}  // namespace dotresize
