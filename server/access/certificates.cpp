#include "server/access/certificates.h"

#include <grpc/grpc_security.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

constexpr uint64_t kMaxPemBytes = 1 << 20;

template <auto kFree>
using Freed = std::integral_constant<decltype(kFree), kFree>;  // a deleter: converts to kFree
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

constexpr char kCertificate[] = "tls.crt";
constexpr char kKey[] = "tls.key";
constexpr char kClientCa[] = "client-ca.crt";
constexpr char kCa[] = "ca.crt";

Bio bio_of(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

Certificate next_certificate(const Bio& pem) {
  return Certificate(PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr));
}

/// Returns a server context. Throws InputError if certificate and key do not match, or if the PEM
/// is not usable.
std::shared_ptr<SSL_CTX> context_of(const std::filesystem::path& directory,
                                    const TlsContent& content) {
  const auto require = [&](bool condition, const char* file, const std::string& fault) {
    if (!condition) throw InputError("--tls", (directory / file).string() + fault);
  };
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context) throw std::runtime_error("OpenSSL cannot make a TLS context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  const Bio chain = bio_of(content.certificate);
  const Certificate first = next_certificate(chain);
  require(first && SSL_CTX_use_certificate(context.get(), first.get()) == 1, kCertificate,
          " has no certificate (PEM)");
  while (Certificate next = next_certificate(chain)) {
    require(SSL_CTX_add_extra_chain_cert(context.get(), next.get()) == 1, kCertificate,
            " has a chain that OpenSSL refuses");
    static_cast<void>(next.release());  // owned by the context
  }
  // OpenSSL must not ask for a passphrase: a server has no terminal.
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  const Key key(
      PEM_read_bio_PrivateKey(bio_of(content.key).get(), nullptr, no_passphrase, nullptr));
  require(key != nullptr, kKey, " has no key without a passphrase (PEM)");
  require(SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1 &&
              SSL_CTX_check_private_key(context.get()) == 1,
          kKey, " is not the key of " + (directory / kCertificate).string());
  const Bio authorities = bio_of(content.client_ca);
  int known = 0;
  while (const Certificate authority = next_certificate(authorities)) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority.get());
    SSL_CTX_add_client_CA(context.get(), authority.get());
    ++known;
  }
  require(content.client_ca.empty() || known > 0, kClientCa, " has no certificate (PEM)");
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET);
  require(content.ca.empty() || next_certificate(bio_of(content.ca)), kCa,
          " has no certificate (PEM)");
  return context;
}

std::shared_ptr<const TlsContent> read_content(const std::filesystem::path& directory) {
  if (directory.empty()) return nullptr;
  if (!std::filesystem::is_directory(directory)) {
    throw InputError("--tls", directory.string() + " is not a directory");
  }
  require_private_file("--tls", directory / kKey);
  auto content = std::make_shared<TlsContent>();
  content->certificate = read_whole_file(directory / kCertificate, kMaxPemBytes);
  content->key = read_whole_file(directory / kKey, kMaxPemBytes);
  const auto read_if_there = [&](const char* name) {
    const bool there = std::filesystem::exists(std::filesystem::symlink_status(directory / name));
    return there ? std::optional(read_whole_file(directory / name, kMaxPemBytes)) : std::nullopt;
  };
  content->ca = read_if_there(kCa).value_or("");
  const std::optional<std::string> client_ca = read_if_there(kClientCa);
  if (client_ca && client_ca->empty()) {  // it must not let everybody in
    throw InputError("--tls", (directory / kClientCa).string() + " is empty");
  }
  content->client_ca = client_ca.value_or("");
  content->context = context_of(directory, *content);
  return content;
}

}  // namespace

/// Credentials of a port, which fetch their certificates before each connection; gRPC's own C++
/// ones read them once.
class Certificates::Port final : public grpc::ServerCredentials {
 public:
  Port(const Certificates& certificates, bool asks_clients)
      : certificates_(certificates), asks_clients_(asks_clients) {}
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    throw std::logic_error("metadata is checked by the services");
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    const auto fetch = [](void* data, grpc_ssl_server_certificate_config** config) {
      Port& port = *static_cast<Port*>(data);
      std::shared_ptr<const TlsContent> now = port.certificates_.current();
      if (now == port.given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
      const grpc_ssl_pem_key_cert_pair pair = {now->key.c_str(), now->certificate.c_str()};
      // gRPC requires a client authority even if it requests no client certificates.
      const std::string& authority = port.asks_clients_ ? now->client_ca : now->certificate;
      *config = grpc_ssl_server_certificate_config_create(authority.c_str(), &pair, 1);
      port.given_ = std::move(now);
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
    };
    const auto asked = asks_clients_ ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                     : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    grpc_server_credentials* credentials = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(asked, fetch, this));
    const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }

  const Certificates& certificates_;
  const bool asks_clients_;
  std::shared_ptr<const TlsContent> given_;  ///< content passed last
};

Certificates::Certificates(std::filesystem::path directory)
    : directory_(std::move(directory)), current_(read_content(directory_)) {}

Certificates::~Certificates() = default;

void Certificates::reload() {
  std::shared_ptr<const TlsContent> content = read_content(directory_);
  const Lock lock(mutex_);
  if (content && content->client_ca.empty() != current_->client_ca.empty()) {
    throw InputError("--tls", (directory_ / kClientCa).string() +
                                  (content->client_ca.empty() ? " is gone" : " is new") +
                                  ", which takes a restart of the server");
  }
  current_ = std::move(content);
}

std::shared_ptr<const TlsContent> Certificates::current() const {
  const Lock lock(mutex_);
  return current_;
}

std::shared_ptr<grpc::ServerCredentials> Certificates::credentials(bool of_clients) {
  if (directory_.empty()) return grpc::InsecureServerCredentials();
  const bool asks_clients = of_clients && !current()->client_ca.empty();
  return ports_.emplace_back(std::make_shared<Port>(*this, asks_clients));
}

}  // namespace dotresize
