#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/access/endpoint.h"

namespace dotresize {

/// Webhooks that the operator allows.
struct WebhookOptions {
  std::vector<std::string> prefixes;  ///< allowed URL prefixes; empty: no webhooks
  std::filesystem::path secret;       ///< file with the key that signs messages
};

/// Decides which URLs may be called. Thread-safe.
class WebhookPolicy {
 public:
  /// Throws InputError for a prefix that is not a URL, and for prefixes without a usable secret.
  explicit WebhookPolicy(const WebhookOptions& options);

  /// Checks the URL that a client asks for, if any. Throws INVALID_ARGUMENT for a text that is not
  /// a URL, PERMISSION_DENIED for a URL that is not allowed.
  void require(const v1::JobOptions& options) const;
  /// True if scheme, host and port are those of a prefix, and the path is the prefix's path or
  /// below it.
  bool allows(const HttpUrl& url) const;

 private:
  std::vector<HttpUrl> prefixes_;
};

/// Reads the key from the file: "whsec_" and the base64 of 24 to 64 bytes. Throws InputError for
/// other content, and for a file that other users may read.
std::string read_webhook_key(const std::filesystem::path& file);

}  // namespace dotresize
