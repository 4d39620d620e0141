#pragma once

#include <grpcpp/security/server_credentials.h>

#include <filesystem>
#include <memory>

namespace dotresize {

/// PEM files of TLS; without `certificate` there is none.
struct TlsFiles {
  std::filesystem::path certificate;  ///< of the server, with those that lead to its authority
  std::filesystem::path key;
  std::filesystem::path client_ca;  ///< whose certificates clients must have; empty: they need none
};

/// How clients reach the server. Throws InputError if a file cannot be read, if one of certificate
/// and key is missing, or if other users can read the key.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& files);

}  // namespace dotresize
