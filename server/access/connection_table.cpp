#include "server/access/connection_table.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <vector>

namespace dotresize {
namespace {

// Share of the connections that is cut at once, so that a flood costs one search for many.
constexpr size_t kCutShare = 8;
constexpr std::chrono::seconds kLongestAnswer{60};

}  // namespace

bool ConnectionTable::add(int socket, const Peer& peer) {
  const Lock lock(mutex_);
  if (const auto old = connections_.find(socket); old != connections_.end()) remove(old);
  const auto has_too_many = [&]() DOTRESIZE_REQUIRES(mutex_) {
    return of_address_[peer.address] >= most_of_one_;
  };
  if (has_too_many()) remove_obsolete();
  if (has_too_many()) {
    cut_idle(std::max<size_t>(1, most_of_one_ / kCutShare),
             [&](const Connection& connection) { return connection.peer.address == peer.address; });
  }
  if (has_too_many()) return false;
  const std::string name = peer.in_grpc();
  connections_[socket] = {peer, name, Clock::now()};
  sockets_[name] = socket;
  ++of_address_[peer.address];
  return true;
}

size_t ConnectionTable::make_room() {
  const Lock lock(mutex_);
  remove_obsolete();
  return cut_idle(connections_.size() / kCutShare, [](const Connection&) { return true; });
}

size_t ConnectionTable::cut_stalled(Clock::time_point now) {
  const Lock lock(mutex_);
  size_t count = 0;
  for (const auto& [id, call] : calls_) {
    if (call.answered > now - kLongestAnswer) continue;  // also one without an answer yet
    const auto socket = sockets_.find(call.peer);
    if (socket == sockets_.end()) continue;
    cut(connections_.find(socket->second));
    ++count;
  }
  return count;
}

void ConnectionTable::begin_call(const void* call, const std::string& peer, bool holds_thread) {
  const Lock lock(mutex_);
  Call& begun = calls_[call] = {peer};
  const auto socket = sockets_.find(peer);
  if (socket == sockets_.end()) return;
  Connection& connection = connections_[socket->second];
  ++connection.calls;
  if (!holds_thread) return;
  begun.address = connection.peer.address;
  if (++threads_[begun.address] > most_threads_) cut_oldest_unread(begun.address);
}

void ConnectionTable::answer_call(const void* call) {
  const Lock lock(mutex_);
  calls_[call].answered = Clock::now();
}

void ConnectionTable::end_call(const void* call) {
  const Lock lock(mutex_);
  const auto ended = calls_.find(call);
  if (const auto socket = sockets_.find(ended->second.peer); socket != sockets_.end()) {
    Connection& connection = connections_[socket->second];
    --connection.calls;
    connection.idle_since = Clock::now();
  }
  const auto threads = threads_.find(ended->second.address);
  if (threads != threads_.end() && --threads->second == 0) threads_.erase(threads);
  calls_.erase(ended);
}

ConnectionTable::Entry ConnectionTable::remove(Entry entry) {
  const auto count = of_address_.find(entry->second.peer.address);
  if (--count->second == 0) of_address_.erase(count);
  const auto socket = sockets_.find(entry->second.name);
  if (socket != sockets_.end() && socket->second == entry->first) sockets_.erase(socket);
  return connections_.erase(entry);
}

void ConnectionTable::remove_obsolete() {
  for (auto entry = connections_.begin(); entry != connections_.end();) {
    entry = peer_of(entry->first) == entry->second.peer ? std::next(entry) : remove(entry);
  }
}

size_t ConnectionTable::cut_idle(size_t most,
                                 const std::function<bool(const Connection&)>& is_meant) {
  std::vector<Entry> idle;
  for (auto entry = connections_.begin(); entry != connections_.end(); ++entry) {
    if (entry->second.calls == 0 && is_meant(entry->second)) idle.push_back(entry);
  }
  std::ranges::sort(idle, {}, [&](const Entry& entry) DOTRESIZE_REQUIRES(mutex_) {
    const Connection& connection = entry->second;
    return std::tuple(-static_cast<int64_t>(of_address_.at(connection.peer.address)),
                      connection.idle_since);
  });
  if (idle.size() > most) idle.resize(most);
  for (const Entry& entry : idle) cut(entry);
  return idle.size();
}

void ConnectionTable::cut_oldest_unread(const std::string& address) {
  const Call* oldest = nullptr;
  for (const auto& [id, call] : calls_) {
    if (call.address != address || call.answered == Clock::time_point::max()) continue;
    if (!sockets_.contains(call.peer)) continue;  // cut already
    if (oldest == nullptr || call.answered < oldest->answered) oldest = &call;
  }
  if (oldest != nullptr) cut(connections_.find(sockets_.at(oldest->peer)));
}

void ConnectionTable::cut(Entry entry) {
  // The peer is compared at the last moment: gRPC may have closed the socket, and its number may be
  // another's.
  if (peer_of(entry->first) == entry->second.peer) ::shutdown(entry->first, SHUT_RDWR);
  remove(entry);
}

}  // namespace dotresize
