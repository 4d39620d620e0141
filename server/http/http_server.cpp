#include "server/http/http_server.h"

#include <httplib.h>
#include <spdlog/spdlog.h>

#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/text/encodings.h"
#include "server/common/api_error.h"
#include "server/common/memory_wait.h"
#include "server/http/http_connection.h"
#include "server/http/http_port.h"

namespace dotresize {
namespace {

constexpr size_t kMaxForm = size_t{8} << 10;
constexpr size_t kMaxHeaders = 100;
constexpr HttpConnection::Limits kLimits{(size_t{32} << 10) + kMaxForm, std::chrono::seconds(5),
                                         std::chrono::seconds(30)};
constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kForm[] = "application/x-www-form-urlencoded";

/// Drops what lets a short request have a large answer, or a costly one: ranges, which the library
/// copies one by one and which nobody needs here, and brotli, whose compression takes seconds.
void simplify(httplib::Request& request) {
  request.ranges.clear();
  const bool gzip = request.get_header_value("Accept-Encoding").find("gzip") != std::string::npos;
  request.headers.erase("Accept-Encoding");
  if (gzip) request.set_header("Accept-Encoding", "gzip");
}

/// Returns why a request is refused before its body is read; empty: it is not. Sets the status.
std::string refusal(const httplib::Request& request, int& status) {
  const auto refused = [&](int code, const char* why) {
    status = code;
    return why;
  };
  if (request.headers.size() > kMaxHeaders) return refused(431, "too many header lines");
  if (request.method == "GET" || request.method == "HEAD") return "";  // the body is not read
  if (request.method != "POST") return refused(405, "only GET, HEAD and POST are known here");
  if (request.has_header("Content-Encoding")) {
    return refused(415, "a body is read as it is, without Content-Encoding");
  }
  if (request.has_header("Transfer-Encoding") ||
      request.get_header_value_count("Content-Length") != 1) {
    return refused(411, "a body needs one Content-Length, and no Transfer-Encoding");
  }
  const auto length = parse_number<size_t>(request.get_header_value("Content-Length"));
  if (!length) return refused(400, "Content-Length is not a number");
  if (*length > kMaxForm) return refused(413, "a form has at most 8 KiB");
  if (*length > 0 && !request.get_header_value("Content-Type").starts_with(kForm)) {
    return refused(415, "a body is a form: application/x-www-form-urlencoded");
  }
  return "";
}

Listeners listen_for_http(const Endpoint& endpoint) {
  try {
    return listen_on_tcp(endpoint.host, endpoint.port);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string("--http: ") + error.what());
  }
}

/// Returns true if the client has shown a certificate of the authority of clients.
bool is_certified(const httplib::Request& request) {
  if (request.ssl == nullptr || ::SSL_get_verify_result(request.ssl) != X509_V_OK) return false;
  X509* const certificate = ::SSL_get1_peer_certificate(request.ssl);
  ::X509_free(certificate);
  return certificate != nullptr;
}

/// Answer to a request whose handler has thrown. The library's default quotes the exception.
void answer_failed(const httplib::Request& request, httplib::Response& response,
                   std::exception_ptr thrown) {
  const grpc::Status status =
      answer(("HTTP " + request.path).c_str(), [&] { std::rethrow_exception(std::move(thrown)); });
  refuse(status, response);
  response.set_content(status.error_message() + "\n", kText);
}

}  // namespace

/// The library's server without its listener: it parses requests and finds their handlers. As
/// packaged (0.11) it has no limits of its own on what a request becomes: ranges, encodings,
/// multipart bodies. A later one is in no package that scripts/setup.sh could install, so limits
/// stand in front of it: HttpConnection's on bytes and time, refusal() before a body is read, and a
/// budget for each request.
class HttpServer::Library final : public httplib::Server {
 public:
  /// `asks_clients`: clients may show a certificate.
  Library(const Certificates& certificates, RequestResources& resources, bool asks_clients)
      : certificates_(certificates), resources_(resources), asks_clients_(asks_clients) {
    // HttpPort listens in the library's place, which sends files only while it has a listener.
    constexpr socket_t kListener = 0;
    svr_sock_ = kListener;
    set_payload_max_length(kMaxForm);
    set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
      const std::string why = refusal(request, response.status);
      if (why.empty()) return HandlerResponse::Unhandled;
      response.set_content(why + "\n", kText);
      return HandlerResponse::Handled;
    });
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.status == 404 && response.body.empty()) {
        response.set_content("no such page\n", kText);
      }
    });
    set_exception_handler(answer_failed);
  }

  /// Serves one request with the certificate that is current when it begins.
  void serve(int socket) noexcept {
    const RefusesWithoutMemory refuses;
    try {
      const std::shared_ptr<const TlsContent> tls = certificates_.current();
      HttpConnection connection(socket, tls ? tls->context.get() : nullptr, kLimits, asks_clients_);
      std::string address;
      int port = 0;
      connection.get_remote_ip_and_port(address, port);
      const RequestBudget budget(resources_, address);
      bool closed = false;
      if (connection.handshake()) {
        process_request(connection, /*close_connection=*/true, closed,
                        [&](httplib::Request& request) {
                          request.ssl = connection.tls();
                          simplify(request);
                        });
      }
    } catch (const std::exception& error) {  // no memory is left to write the answer
      spdlog::error("HTTP: an answer was cut off: {}", error.what());
    }
  }

 private:
  const Certificates& certificates_;
  RequestResources& resources_;
  const bool asks_clients_;
};

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
      library_(std::make_unique<Library>(certificates, gate.resources(), by_certificate_)) {
  library_->Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("ok\n", kText);
  });
  library_->Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
    std::string text;
    for (const HealthCheck& check : content_.health()) {
      text += check.part + ": " + (check.verdict ? "ok" : check.verdict.fault()) + "\n";
      if (check.needed && !check.verdict) response.status = 503;
    }
    response.set_content(text, kText);
  });
  library_->Get("/metrics", [this](const httplib::Request& request, httplib::Response& response) {
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
  content_.add_pages(*library_);
  Listeners listeners = listen_for_http(endpoint);
  url_ = (certificates.current() ? "https://" : "http://") + endpoint.host + ":" +
         std::to_string(listeners.port);
  port_ = std::make_unique<HttpPort>(std::move(listeners),
                                     [this](int socket) { library_->serve(socket); });
}

HttpServer::~HttpServer() = default;

}  // namespace dotresize
