#pragma once

#include <string>

namespace dotresize {

/// The secret with which the processes of one attempt authenticate. Only its hash is ever stored.
struct AttemptToken {
  std::string secret;  ///< 64 hexadecimal digits
  std::string sha256;  ///< 32 bytes
};

AttemptToken make_attempt_token();

/// Whether `secret` has this SHA-256, in time that does not depend on where they differ.
bool matches_token(const std::string& secret, const std::string& sha256);

/// "j-" and 16 hexadecimal digits of the operating system's random numbers.
std::string make_job_id();

}  // namespace dotresize
