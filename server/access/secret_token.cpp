#include "server/access/secret_token.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "base/process/environment.h"
#include "base/text/printable.h"

namespace dotresize {

std::string token_hash(const std::string& secret) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

SecretToken make_secret_token() {
  SecretToken token;
  token.secret = hex_digits(random_bytes(32));
  token.sha256 = token_hash(token.secret);
  return token;
}

bool matches_token(const std::string& secret, const std::string& sha256) {
  const std::string hash = token_hash(secret);
  return sha256.size() == hash.size() &&
         CRYPTO_memcmp(hash.data(), sha256.data(), hash.size()) == 0;
}

}  // namespace dotresize
