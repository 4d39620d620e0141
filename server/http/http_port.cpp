#include "server/http/http_port.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "server/common/memory_wait.h"

namespace dotresize {
namespace {

constexpr size_t kHttpThreads = 32;
constexpr int kHttpThreadsOfOne = 24;
constexpr size_t kMostHttpWaiting = 256;
constexpr std::chrono::seconds kLongestHttpWait{5};
constexpr std::chrono::milliseconds kHttpLook{250};
constexpr std::chrono::milliseconds kHttpPause{50};
constexpr std::chrono::seconds kHttpGrace{1};

/// Discards what has arrived of a body that nobody read: with it, close() would reset the
/// connection before the peer has read the answer.
void discard_unread(int socket) {
  constexpr size_t kMostDiscarded = size_t{64} << 10;
  std::array<char, 4096> part;
  ssize_t got = 1;
  for (size_t all = 0; got > 0 && all < kMostDiscarded; all += static_cast<size_t>(got)) {
    got = ::recv(socket, part.data(), part.size(), MSG_DONTWAIT);
  }
}

}  // namespace

HttpPort::HttpPort(Listeners listeners, std::function<void(int socket)> answer)
    : listeners_(std::move(listeners)),
      answer_(std::move(answer)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (size_t i = 0; i < kHttpThreads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { serve_loop(stop); });
  }
  acceptor_ = std::thread([this] { accept_loop(); });
}

HttpPort::~HttpPort() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
    ready_.clear();
  }
  ::eventfd_write(wake_.get(), 1);
  acceptor_.join();
  Lock lock(mutex_);
  if (ended_.wait_for(lock, kHttpGrace,
                      [this]() DOTRESIZE_REQUIRES(mutex_) { return open_.empty(); }))
    return;
  spdlog::info("stopping: {} HTTP answers are cut off", open_.size());
  for (const int socket : open_) ::shutdown(socket, SHUT_RDWR);
}

void HttpPort::accept_loop() {
  const RefusesWithoutMemory refuses;
  for (;;) {
    try {
      {
        const Lock lock(mutex_);
        if (stopping_) return;
      }
      look();
    } catch (const std::bad_alloc&) {
      spdlog::error("HTTP: no memory is left; the connection that has waited longest is dropped");
      drop_one();
    }
  }
}

void HttpPort::look() {
  std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}};
  for (const UniqueFd& socket : listeners_.sockets) polled.push_back({socket.get(), POLLIN, 0});
  const size_t first = polled.size();
  for (const Connection& connection : waiting_) {
    // poll() ignores a negative descriptor.
    polled.push_back({connection.readable ? -1 : connection.socket.get(), POLLIN, 0});
  }
  if (::poll(polled.data(), polled.size(), static_cast<int>(kHttpLook.count())) < 0) return;
  eventfd_t wakes = 0;
  ::eventfd_read(wake_.get(), &wakes);
  auto connection = waiting_.begin();
  for (size_t i = first; i < polled.size(); ++i, ++connection) {
    connection->readable |= polled[i].revents != 0;
  }
  const Clock::time_point now = Clock::now();
  std::erase_if(waiting_, [&](Connection& waiting) {
    return (waiting.readable && pass_on(waiting)) || waiting.until < now;
  });
  for (size_t i = 1; i < first; ++i) {
    if (polled[i].revents != 0) accept(polled[i].fd);
  }
}

void HttpPort::accept(int listener) {
  UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) {
    if (errno != EMFILE && errno != ENFILE) return;
    drop_one();
    std::this_thread::sleep_for(kHttpPause);
    return;
  }
  const std::optional<Peer> peer = peer_of(socket.get());
  if (!peer) return;  // gone already
  waiting_.push_back({std::move(socket), peer->address, Clock::now() + kLongestHttpWait});
  if (waiting_.size() > kMostHttpWaiting) drop_one();
}

void HttpPort::drop_one() {
  if (waiting_.empty()) return;
  std::map<std::string, int> counts;
  for (const Connection& connection : waiting_) ++counts[connection.address];
  waiting_.erase(std::ranges::max_element(
      waiting_, {}, [&](const Connection& connection) { return counts.at(connection.address); }));
}

bool HttpPort::pass_on(Connection& connection) {
  const Lock lock(mutex_);
  if (ready_.size() + open_.size() >= kHttpThreads) return false;
  int& of_address = served_[connection.address];  // at least 1 if it was there
  if (of_address >= kHttpThreadsOfOne) return false;
  ++of_address;
  ready_.push_back(std::move(connection));
  passed_.notify_one();
  return true;
}

void HttpPort::serve_loop(const std::stop_token& stop) {
  Lock lock(mutex_);
  while (
      passed_.wait(lock, stop, [this]() DOTRESIZE_REQUIRES(mutex_) { return !ready_.empty(); })) {
    Connection connection = std::move(ready_.front());
    ready_.pop_front();
    open_.insert(connection.socket.get());
    lock.unlock();
    answer_(connection.socket.get());
    discard_unread(connection.socket.get());
    lock.lock();
    open_.erase(connection.socket.get());
    connection.socket = UniqueFd();  // with the lock: nobody else cuts a socket of this number
    const auto served = served_.find(connection.address);
    if (--served->second == 0) served_.erase(served);
    ended_.notify_all();
    ::eventfd_write(wake_.get(), 1);
  }
}

}  // namespace dotresize
