#pragma once

#include <httplib.h>

#include <chrono>
#include <cstddef>

namespace dotresize {

/// One request and its answer over a socket, with TLS if there is a context. The library limits
/// each header line, but neither their number nor the time they take. This class limits the bytes
/// and the time of the whole request, and the time of the answer.
class HttpConnection final : public httplib::Stream {
 public:
  struct Limits {
    size_t request_bytes;
    std::chrono::seconds request_time;  ///< limit from construction, TLS handshake included
    std::chrono::seconds answer_time;   ///< limit from the answer's first byte
  };

  /// `context`: null without TLS. The caller closes the socket. `asks_client`: with TLS the client
  /// may show a certificate of the context's authorities of clients.
  HttpConnection(socket_t socket, SSL_CTX* context, const Limits& limits, bool asks_client);
  ~HttpConnection() override;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  /// Performs the TLS handshake. Returns false if it fails; true without TLS.
  bool handshake();

  /// Null without TLS.
  const SSL* tls() const { return tls_; }

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  /// Returns -1 once the request is too large or too slow.
  ssize_t read(char* to, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;

  /// Waits until the socket has one of `events`. Returns false at `end` or on an error.
  bool wait(short events, Clock::time_point end) const;
  /// Calls an OpenSSL function until it completes. Returns -1 at `end` or on an error.
  template <class Operation>
  ssize_t with_tls(Clock::time_point end, const Operation& operation);

  socket_t socket_;
  SSL* tls_ = nullptr;
  size_t left_;  ///< bytes the request may still have
  Clock::time_point request_end_;
  std::chrono::seconds answer_time_;
  Clock::time_point answer_end_;  ///< set when the answer begins
};

}  // namespace dotresize
