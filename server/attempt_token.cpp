#include "server/attempt_token.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <cstddef>
#include <stdexcept>

#include "base/printable.h"

namespace dotresize {
namespace {

std::string random_hex(size_t bytes) {
  std::string random(bytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), static_cast<int>(bytes)) != 1) {
    throw std::runtime_error("the random number generator failed");
  }
  return hex_digits(random);
}

std::string sha256_of(const std::string& data) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

}  // namespace

AttemptToken make_attempt_token() {
  AttemptToken token;
  token.secret = random_hex(32);
  token.sha256 = sha256_of(token.secret);
  return token;
}

bool matches_token(const std::string& secret, const std::string& sha256) {
  const std::string hash = sha256_of(secret);
  return sha256.size() == hash.size() &&
         CRYPTO_memcmp(hash.data(), sha256.data(), hash.size()) == 0;
}

std::string make_job_id() { return "j-" + random_hex(8); }

}  // namespace dotresize
