#pragma once

#include <httplib.h>

#include <chrono>
#include <cstddef>
#include <memory>

namespace dotresize {

/// One request and its answer over a socket, of a server or of a client. The library limits neither
/// the number of header lines nor the time they take, and as a client not even the length of a
/// line. This class limits the bytes and the time of all that is read, and the time of all that is
/// written.
class HttpConnection final : public httplib::Stream {
 public:
  struct Limits {
    size_t read_bytes;
    std::chrono::seconds read_time;   ///< limit from construction, TLS handshake included
    std::chrono::seconds write_time;  ///< limit from the first byte that is written
  };

  /// A server's connection. `context`: null without TLS. The caller closes the socket.
  /// `asks_client`: with TLS the client may show a certificate of the context's authorities of
  /// clients.
  HttpConnection(socket_t socket, SSL_CTX* context, const Limits& limits, bool asks_client);
  /// A client's connection, with the caller's TLS; null without.
  HttpConnection(socket_t socket, SSL* tls, const Limits& limits);
  ~HttpConnection() override = default;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  /// Performs the TLS handshake. Returns false if it fails; true without TLS.
  bool handshake();

  /// Null without TLS.
  const SSL* tls() const { return tls_; }

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  /// Returns -1 once what is read is too large or too slow.
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
  std::unique_ptr<SSL, void (*)(SSL*)> own_tls_;  ///< null for a client
  SSL* tls_;                                      ///< null without TLS
  size_t left_;                                   ///< bytes that may still be read
  Clock::time_point read_end_;
  std::chrono::seconds write_time_;
  Clock::time_point write_end_;  ///< set by the first byte
};

}  // namespace dotresize
