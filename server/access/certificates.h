#pragma once

#include <grpcpp/security/server_credentials.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

struct ssl_ctx_st;

namespace dotresize {

/// PEM files of TLS; without `certificate` there is none.
struct TlsFiles {
  std::filesystem::path certificate;  ///< of the server, with those that lead to its authority
  std::filesystem::path key;
  std::filesystem::path client_ca;  ///< whose certificates clients must have; empty: they need none
};

/// The content of these files, whose parts belong together.
struct TlsContent {
  std::string certificate, key, client_ca;  ///< PEM
  std::shared_ptr<ssl_ctx_st> context;      ///< of OpenSSL, for servers; it knows no client_ca
};

/// The certificates of all ports, which can be replaced while they serve: connections that come
/// later have the new ones. Outlives the servers that use it. Safe to use from any thread.
class Certificates {
 public:
  /// Throws as reload().
  explicit Certificates(TlsFiles files);
  ~Certificates();
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  /// Whether there is TLS.
  bool are_used() const { return !files_.certificate.empty(); }
  /// Reads the files again. Throws InputError, and nothing has changed then, if one cannot be read
  /// or is no PEM, if certificate and key are missing or do not belong together, or if other users
  /// can read the key.
  void reload();
  /// Null without TLS.
  std::shared_ptr<const TlsContent> current() const;
  /// For a server of gRPC. `of_clients`: clients must have a certificate, if there is a client_ca.
  std::shared_ptr<grpc::ServerCredentials> credentials(bool of_clients);

 private:
  struct Port;

  const TlsFiles files_;
  mutable std::mutex mutex_;
  std::shared_ptr<const TlsContent> current_;
  std::vector<std::unique_ptr<Port>> ports_;
};

}  // namespace dotresize
