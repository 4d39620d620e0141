#pragma once

#include <httplib.h>

#include <chrono>
#include <cstddef>

namespace dotresize {

/// One request and its answer over a socket, with TLS if there is a context. The library limits
/// each header line, but neither how many there are nor how slowly they come: here the whole
/// request has a number of bytes and an end, and so has the answer.
class HttpConnection final : public httplib::Stream {
 public:
  struct Limits {
    size_t request_bytes;
    std::chrono::seconds request_time;  ///< from now on, the handshake of TLS among it
    std::chrono::seconds answer_time;   ///< from its first byte on
  };

  /// `context` is none without TLS. The caller closes the socket.
  HttpConnection(socket_t socket, SSL_CTX* context, const Limits& limits);
  ~HttpConnection() override;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  /// Whether TLS has been agreed on; true without it.
  bool handshake();

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  /// -1 once the request is too large or too slow.
  ssize_t read(char* to, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;

  /// Until the socket has one of `events`; false at `end`.
  bool wait(short events, Clock::time_point end) const;
  /// Calls one of OpenSSL's functions until it is through.
  template <class Operation>
  ssize_t with_tls(Clock::time_point end, const Operation& operation);

  socket_t socket_;
  SSL* tls_ = nullptr;
  size_t left_;  ///< bytes of the request
  Clock::time_point request_end_;
  std::chrono::seconds answer_time_;
  Clock::time_point answer_end_;  ///< once it has begun
};

}  // namespace dotresize
