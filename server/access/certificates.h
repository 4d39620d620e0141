#pragma once

#include <grpcpp/security/server_credentials.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

struct ssl_ctx_st;

namespace dotresize {

/// PEM files of TLS. Empty `certificate`: no TLS.
struct TlsFiles {
  std::filesystem::path certificate;  ///< server certificate and its chain
  std::filesystem::path key;
  std::filesystem::path client_ca;  ///< authority of client certificates; empty: none required
};

/// Content of the TLS files, checked to belong together.
struct TlsContent {
  std::string certificate, key, client_ca;  ///< PEM
  std::shared_ptr<ssl_ctx_st> context;      ///< OpenSSL server context; does not use client_ca
};

/// Certificates of all ports. They can be replaced while the ports serve: later connections get the
/// new ones. Outlives the servers that use it. reload() and current() are thread-safe.
class Certificates {
 public:
  /// Reads the files; throws like reload().
  explicit Certificates(TlsFiles files);
  ~Certificates();
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  /// Returns true if TLS is on.
  bool are_used() const { return !files_.certificate.empty(); }
  /// Reads the files again. Throws InputError and changes nothing if a file cannot be read or is
  /// not PEM, if certificate and key are missing or do not match, or if other users can read the
  /// key.
  void reload();
  /// Returns null without TLS.
  std::shared_ptr<const TlsContent> current() const;
  /// Returns the credentials of a gRPC port. `of_clients`: clients must have a certificate if there
  /// is a client_ca.
  std::shared_ptr<grpc::ServerCredentials> credentials(bool of_clients);

 private:
  struct Port;

  const TlsFiles files_;
  mutable std::mutex mutex_;  ///< guards the pointer current_
  std::shared_ptr<const TlsContent> current_;
  std::vector<std::unique_ptr<Port>> ports_;
};

}  // namespace dotresize
