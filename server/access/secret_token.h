#pragma once

#include <string>

namespace dotresize {

/// Secret with which clients, visitors and the processes of an attempt authenticate. Only its hash
/// is stored, with one exception: ranks on other machines read the secret from a private file,
/// which is removed with the attempt.
struct SecretToken {
  std::string secret;  ///< 64 hexadecimal digits
  std::string sha256;  ///< 32 bytes
};

SecretToken make_secret_token();

/// Returns the SecretToken.sha256 of a secret.
std::string token_hash(const std::string& secret);

/// True if `secret` has this SHA-256; compares in constant time.
bool matches_token(const std::string& secret, const std::string& sha256);

}  // namespace dotresize
