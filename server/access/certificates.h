#pragma once

#include <grpcpp/security/server_credentials.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/process/mutex.h"

struct ssl_ctx_st;

namespace dotresize {

/// PEM content of the directory of --tls, checked to belong together. Its layout is that of a
/// Kubernetes secret of type tls.
struct TlsContent {
  std::string certificate;  ///< tls.crt: the server's certificate and its chain
  std::string key;          ///< tls.key
  std::string client_ca;  ///< client-ca.crt: authority of clients; empty: they need no certificate
  std::string ca;         ///< ca.crt: authority by which ranks know the server; may be empty
  std::shared_ptr<ssl_ctx_st> context;  ///< OpenSSL server context; knows client_ca, asks nobody
};

/// Certificates of all ports. They can be replaced while the ports serve: later connections get the
/// new ones. Outlives the servers that use it. reload() and current() are thread-safe.
class Certificates {
 public:
  /// Reads the files of the directory; throws like reload(). Empty path: no TLS.
  explicit Certificates(std::filesystem::path directory);
  ~Certificates();
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  /// Reads the files again. Throws InputError and changes nothing if a file cannot be read or is
  /// not PEM, if certificate and key are missing or do not match, if other users can read the key,
  /// or if client-ca.crt has come or gone: the ports ask all clients for a certificate, or none.
  void reload();
  /// Returns null without TLS.
  std::shared_ptr<const TlsContent> current() const;
  /// Returns the credentials of a gRPC port. `of_clients`: clients must have a certificate if there
  /// is a client_ca.
  std::shared_ptr<grpc::ServerCredentials> credentials(bool of_clients);

 private:
  class Port;

  const std::filesystem::path directory_;
  mutable Mutex mutex_;
  std::shared_ptr<const TlsContent> current_ DOTRESIZE_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Port>> ports_;  ///< for as long as gRPC fetches through them
};

}  // namespace dotresize
