#include "server/http/http_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <new>

#include "base/text/encodings.h"

namespace dotresize {
namespace {

using NameFunction = int (*)(int, sockaddr*, socklen_t*);

void name_of(NameFunction function, socket_t socket, std::string& ip, int& port) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  if (function(socket, plain, &length) != 0 ||
      ::getnameinfo(plain, length, host.data(), host.size(), service.data(), service.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return;
  }
  ip = host.data();
  port = parse_number<int>(service.data()).value_or(0);
}

SSL* new_tls(SSL_CTX* context) {
  SSL* const tls = ::SSL_new(context);
  if (tls == nullptr) throw std::bad_alloc();
  return tls;
}

void end_tls(SSL* tls) {
  ::SSL_shutdown(tls);
  ::SSL_free(tls);
}

int size_for_tls(size_t size) {
  return static_cast<int>(std::min<size_t>(size, std::numeric_limits<int>::max()));
}

}  // namespace

HttpConnection::HttpConnection(socket_t socket, SSL_CTX* context, const Limits& limits,
                               bool asks_client)
    : HttpConnection(socket, context == nullptr ? nullptr : new_tls(context), limits) {
  own_tls_.reset(tls_);
  if (tls_ == nullptr) return;
  ::SSL_set_fd(tls_, socket_);
  if (asks_client) ::SSL_set_verify(tls_, SSL_VERIFY_PEER, nullptr);
}

HttpConnection::HttpConnection(socket_t socket, SSL* tls, const Limits& limits)
    : socket_(socket),
      own_tls_(nullptr, end_tls),
      tls_(tls),
      left_(limits.read_bytes),
      read_end_(Clock::now() + limits.read_time),
      write_time_(limits.write_time) {
  ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
}

bool HttpConnection::handshake() {
  if (tls_ == nullptr) return true;
  return with_tls(read_end_, [this] { return ::SSL_accept(tls_); }) > 0;
}

bool HttpConnection::wait(short events, Clock::time_point end) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    pollfd polled{socket_, events, 0};
    const int ready = ::poll(&polled, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

template <class Operation>
ssize_t HttpConnection::with_tls(Clock::time_point end, const Operation& operation) {
  for (;;) {
    if (Clock::now() >= end) return -1;
    ::ERR_clear_error();  // left by this thread's other connections
    const int done = operation();
    if (done > 0) return done;
    const int error = ::SSL_get_error(tls_, done);
    if (error == SSL_ERROR_ZERO_RETURN) return 0;
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return -1;
    if (!wait(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, end)) return -1;
  }
}

ssize_t HttpConnection::read(char* to, size_t size) {
  size = std::min(size, left_);
  if (size == 0) return -1;
  ssize_t got = -1;
  if (tls_ != nullptr) {
    got = with_tls(read_end_, [&] { return ::SSL_read(tls_, to, size_for_tls(size)); });
  } else if (wait(POLLIN, read_end_)) {
    got = ::recv(socket_, to, size, 0);
  }
  if (got > 0) left_ -= static_cast<size_t>(got);
  return got;
}

ssize_t HttpConnection::write(const char* from, size_t size) {
  if (write_end_ == Clock::time_point()) write_end_ = Clock::now() + write_time_;
  if (tls_ != nullptr) {
    return with_tls(write_end_, [&] { return ::SSL_write(tls_, from, size_for_tls(size)); });
  }
  if (!wait(POLLOUT, write_end_)) return -1;
  return ::send(socket_, from, size, MSG_NOSIGNAL);
}

void HttpConnection::get_remote_ip_and_port(std::string& ip, int& port) const {
  name_of(::getpeername, socket_, ip, port);
}

void HttpConnection::get_local_ip_and_port(std::string& ip, int& port) const {
  name_of(::getsockname, socket_, ip, port);
}

}  // namespace dotresize
