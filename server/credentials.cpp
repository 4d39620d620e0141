#include "server/credentials.h"

#include "base/errors.h"
#include "base/input_file.h"
#include "server/files.h"

namespace dotresize {
namespace {

constexpr uint64_t kMaxPemBytes = 1 << 20;

}  // namespace

std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& files) {
  if (files.certificate.empty() != files.key.empty()) {
    throw InputError("--tls-cert", "needs --tls-key, and the other way round");
  }
  if (files.certificate.empty()) {
    if (!files.client_ca.empty()) throw InputError("--tls-client-ca", "needs --tls-cert");
    return grpc::InsecureServerCredentials();
  }
  require_private_file("--tls-key", files.key);
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back(
      {read_whole_file(files.key, kMaxPemBytes), read_whole_file(files.certificate, kMaxPemBytes)});
  if (!files.client_ca.empty()) {
    options.pem_root_certs = read_whole_file(files.client_ca, kMaxPemBytes);
    options.client_certificate_request = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  return grpc::SslServerCredentials(options);
}

}  // namespace dotresize
