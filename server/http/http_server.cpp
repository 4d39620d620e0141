#include "server/http/http_server.h"

#include <httplib.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <semaphore>
#include <string_view>
#include <utility>

#include "server/api_error.h"
#include "server/http/http_connection.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

// One thread per connection, so that slow connections do not block others.
constexpr size_t kThreads = 32;
constexpr std::ptrdiff_t kMaxConnections = 32;
constexpr size_t kMaxBody = 1024;
constexpr HttpConnection::Limits kLimits{(size_t{64} << 10) + kMaxBody, std::chrono::seconds(5),
                                         std::chrono::seconds(30)};
constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";

/// Thread pool that makes the listener wait at kMaxConnections, which bounds the file descriptors
/// taken from the rest of the server.
class BoundedPool final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> answer) override {
    room_.acquire();
    pool_.enqueue([this, answer = std::move(answer)] {
      answer();
      room_.release();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  std::counting_semaphore<kMaxConnections> room_{kMaxConnections};
  httplib::ThreadPool pool_{kThreads};
};

/// Serves each connection within kLimits, using the certificate that is current when it begins.
class LimitedServer final : public httplib::Server {
 public:
  /// `asks_clients`: clients may show a certificate.
  LimitedServer(const Certificates& certificates, bool asks_clients)
      : certificates_(certificates), asks_clients_(asks_clients) {
    new_task_queue = [] { return new BoundedPool; };
    set_payload_max_length(kMaxBody);
    // The library's default options would let a second server listen on the same port.
    set_socket_options([](int socket) {
      constexpr int kOn = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof(kOn));
    });
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.status == 404 && response.body.empty()) {
        response.set_content("no such page\n", kText);
      }
    });
    // The library's default answer quotes the exception.
    set_exception_handler([](const httplib::Request& request, httplib::Response& response,
                             std::exception_ptr thrown) {
      try {
        std::rethrow_exception(std::move(thrown));
      } catch (const std::exception& error) {
        spdlog::error("HTTP {}: {}", request.path, error.what());
      }
      response.status = 500;
      response.set_content("the server failed to do this; its log says why\n", kText);
    });
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    bool answered = false;
    {
      const std::shared_ptr<const TlsContent> tls = certificates_.current();
      HttpConnection connection(socket, tls ? tls->context.get() : nullptr, kLimits, asks_clients_);
      bool closed = false;
      answered = connection.handshake() && process_request(connection, /*close_connection=*/true,
                                                           closed, [&](httplib::Request& request) {
                                                             request.ssl = connection.tls();
                                                           });
    }
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return answered;
  }

  const Certificates& certificates_;
  const bool asks_clients_;
};

/// Returns true if the client has shown a certificate of the authority of clients.
bool is_certified(const httplib::Request& request) {
  if (request.ssl == nullptr || ::SSL_get_verify_result(request.ssl) != X509_V_OK) return false;
  X509* const certificate = ::SSL_get1_peer_certificate(request.ssl);
  ::X509_free(certificate);
  return certificate != nullptr;
}

}  // namespace

CallOrigin origin_of(const httplib::Request& request) {
  // The peer is written as gRPC does: "ipv4:127.0.0.1:4711", "ipv6:%5B::1%5D:4711".
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 client at an IPv6 socket
  std::string address = request.remote_addr;
  if (address.starts_with(kMapped)) address.erase(0, kMapped.size());
  const bool v6 = address.find(':') != std::string::npos;
  CallOrigin origin;
  origin.peer = (v6 ? "ipv6:%5B" + address + "%5D" : "ipv4:" + address) + ":" +
                std::to_string(request.remote_port);
  if (request.get_header_value_count("Authorization") == 1) {
    origin.credential = Credential(token_of_header(request.get_header_value("Authorization")));
  }
  return origin;
}

int http_status(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return 200;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return 400;
    case grpc::StatusCode::UNAUTHENTICATED:
      return 401;
    case grpc::StatusCode::PERMISSION_DENIED:
      return 403;
    case grpc::StatusCode::NOT_FOUND:
      return 404;
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::FAILED_PRECONDITION:
      return 409;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return 429;
    case grpc::StatusCode::UNAVAILABLE:
      return 503;
    default:
      return 500;
  }
}

int refuse(const grpc::Status& status, httplib::Response& response) {
  response.status = http_status(status.error_code());
  if (response.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  if (response.status == 429 || response.status == 503) response.set_header("Retry-After", "2");
  return response.status;
}

HttpServer::HttpServer(const Endpoint& endpoint, const Certificates& certificates, CallGate& gate,
                       HttpContent content)
    : gate_(gate),
      content_(std::move(content)),
      by_certificate_(gate.access().open_to_all && certificates.current() &&
                      !certificates.current()->client_ca.empty()),
      server_(std::make_unique<LimitedServer>(certificates, by_certificate_)) {
  server_->Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("ok\n", kText);
  });
  server_->Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
    std::string text;
    for (const HealthCheck& check : content_.health()) {
      text += check.part + ": " + (check.fault.empty() ? "ok" : check.fault) + "\n";
      if (check.needed && !check.fault.empty()) response.status = 503;
    }
    response.set_content(text, kText);
  });
  server_->Get("/metrics", [this](const httplib::Request& request, httplib::Response& response) {
    const grpc::Status status =
        gate_.serve("GetMetrics", origin_of(request), Role::kRead, "", [&](const Caller&, auto&) {
          if (by_certificate_ && !is_certified(request)) {
            throw ApiError(grpc::StatusCode::PERMISSION_DENIED, "NO_CERTIFICATE",
                           "this server knows its clients by certificates: show one of its "
                           "client-ca.crt, or have its operator set --tokens");
          }
          response.set_content(content_.metrics(), kPrometheusText);
        });
    if (status.ok()) return;
    refuse(status, response);
    response.set_content(status.error_message() + "\n", kText);
  });
  content_.add_pages(*server_);
  const std::string host = host_of(endpoint);
  const int port = endpoint.port == 0                           ? server_->bind_to_any_port(host)
                   : server_->bind_to_port(host, endpoint.port) ? endpoint.port
                                                                : -1;
  if (port < 0) {
    throw_errno("--http: cannot listen on " + endpoint.host + ":" + std::to_string(endpoint.port));
  }
  url_ = (certificates.current() ? "https://" : "http://") + endpoint.host + ":" +
         std::to_string(port);
  thread_ = std::thread([this] { server_->listen_after_bind(); });
  while (!server_->is_running()) std::this_thread::yield();  // stop() has no effect before
}

HttpServer::~HttpServer() {
  server_->stop();
  thread_.join();
}

}  // namespace dotresize
