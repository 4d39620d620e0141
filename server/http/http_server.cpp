#include "server/http/http_server.h"

#include <httplib.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <semaphore>
#include <utility>

#include "server/http/http_connection.h"
#include "server/http/http_origin.h"
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
  explicit LimitedServer(const Certificates& certificates) : certificates_(certificates) {}

 private:
  bool process_and_close_socket(socket_t socket) override {
    bool answered = false;
    {
      const std::shared_ptr<const TlsContent> tls = certificates_.current();
      HttpConnection connection(socket, tls ? tls->context.get() : nullptr, kLimits);
      bool closed = false;
      answered = connection.handshake() &&
                 process_request(connection, /*close_connection=*/true, closed, nullptr);
    }
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return answered;
  }

  const Certificates& certificates_;
};

void set_limits(httplib::Server& server) {
  server.new_task_queue = [] { return new BoundedPool; };
  server.set_payload_max_length(kMaxBody);
  // The library's default options would let a second server listen on the same port.
  server.set_socket_options([](int socket) {
    constexpr int kOn = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof(kOn));
  });
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.status == 404 && response.body.empty()) {
      response.set_content("there is no such page\n", kText);
    }
  });
  // The library's default answer quotes the exception.
  server.set_exception_handler(
      [](const httplib::Request& request, httplib::Response& response, std::exception_ptr thrown) {
        try {
          std::rethrow_exception(std::move(thrown));
        } catch (const std::exception& error) {
          spdlog::error("HTTP {}: {}", request.path, error.what());
        }
        response.status = 500;
        response.set_content("the server could not do this; its log says why\n", kText);
      });
}

void show_health(const std::vector<HealthCheck>& checks, httplib::Response& response) {
  std::string text;
  for (const HealthCheck& check : checks) {
    text += check.part + ": " + (check.fault.empty() ? "ok" : check.fault) + "\n";
    if (check.needed && !check.fault.empty()) response.status = 503;
  }
  response.set_content(text, kText);
}

}  // namespace

HttpServer::HttpServer(const Endpoint& endpoint, const Certificates& certificates, CallGate& gate,
                       HttpContent content)
    : gate_(gate),
      content_(std::move(content)),
      server_(std::make_unique<LimitedServer>(certificates)) {
  set_limits(*server_);
  add_pages();
  std::string host = endpoint.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const int port = endpoint.port == 0                           ? server_->bind_to_any_port(host)
                   : server_->bind_to_port(host, endpoint.port) ? endpoint.port
                                                                : -1;
  if (port < 0) {
    throw_errno("--http: cannot listen on " + endpoint.host + ":" + std::to_string(endpoint.port));
  }
  url_ = (certificates.are_used() ? "https://" : "http://") + endpoint.host + ":" +
         std::to_string(port);
  thread_ = std::thread([this] { server_->listen_after_bind(); });
  while (!server_->is_running()) std::this_thread::yield();  // stop() has no effect before
}

HttpServer::~HttpServer() {
  server_->stop();
  thread_.join();
}

void HttpServer::add_pages() {
  server_->Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("ok\n", kText);
  });
  server_->Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
    show_health(content_.health(), response);
  });
  server_->Get("/metrics", [this](const httplib::Request& request, httplib::Response& response) {
    const grpc::Status status = gate_.serve(
        "GetMetrics", origin_of(request), Role::kRead, "",
        [&](const Caller&, auto&) { response.set_content(content_.metrics(), kPrometheusText); });
    if (status.ok()) return;
    refuse(status, response);
    response.set_content(status.error_message() + "\n", kText);
  });
  content_.add_pages(*server_);
}

}  // namespace dotresize
