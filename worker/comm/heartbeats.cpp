#include "worker/comm/heartbeats.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/text/printable.h"

namespace dotresize {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kMaxInterval(1000);
constexpr int kBeatsInTimeout = 10;
constexpr size_t kMaxText = 64;
constexpr int kMaxPacketsAtOnce = 10000;  // a flooded socket must not stop the beats

/// A packet. All ranks of an MPI job have the same byte order.
struct Beat {
  std::array<char, kTokenBytes> token;
  int32_t from;
  int32_t to;
  int64_t wait;  ///< number of waits that the rank has begun
  // Each text ends at its first 0, if any.
  std::array<char, kMaxText> phase;
  std::array<char, kMaxText> operation;  ///< empty: the rank does not wait
};
static_assert(sizeof(Beat) == 160);

std::string read_text(const std::array<char, kMaxText>& field) {
  return printable({field.begin(), std::ranges::find(field, '\0')});
}

void write_text(std::array<char, kMaxText>& field, const std::string& text) {
  std::memcpy(field.data(), text.data(), std::min(text.size(), field.size()));
}

std::string in_seconds(milliseconds time) {
  const auto rounded = std::chrono::duration_cast<seconds>(time);
  return std::to_string(rounded.count()) + " s";
}

}  // namespace

Heartbeats::Heartbeats(PeerSockets sockets, HeartbeatOptions options)
    : sockets_(std::move(sockets)),
      options_(std::move(options)),
      interval_(std::min(kMaxInterval, options_.timeout / kBeatsInTimeout)),
      wake_(::eventfd(0, EFD_CLOEXEC)),
      peers_(sockets_.ranks.size()) {
  if (!wake_) throw std::system_error(errno, std::generic_category(), "eventfd");
  for (Peer& peer : peers_) peer.last = Clock::now();
  thread_ = std::thread([this] { loop(); });
}

Heartbeats::~Heartbeats() {
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

std::string Heartbeats::name(int rank) const {
  return "rank " + std::to_string(rank) + " on " + sockets_.ranks[static_cast<size_t>(rank)].host;
}

void Heartbeats::wait_for_peers() {
  int unheard = 0;
  const auto all_heard = [&] {
    unheard = 0;
    while (unheard < std::ssize(peers_) &&
           (unheard == sockets_.rank || peers_[static_cast<size_t>(unheard)].heard)) {
      ++unheard;
    }
    return unheard == std::ssize(peers_);
  };
  std::unique_lock<std::mutex> lock(mutex_);
  if (heard_.wait_for(lock, options_.start_timeout, all_heard)) return;
  throw CommunicationError("no heartbeat of " + name(unheard) + " has arrived within " +
                           in_seconds(options_.start_timeout) +
                           ": UDP packets must get from rank to rank");
}

std::string Heartbeats::silence() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return silence_;
}

WaitLimit Heartbeats::wait_limit() {
  return [this](const std::string& operation, Clock::time_point begun) {
    const std::lock_guard<std::mutex> lock(mutex_);
    asked_ = Clock::now();
    if (std::exchange(begun_, begun) != begun) mine_ = {mine_.number + 1, operation, begun};
    return silence_.empty() ? silence_ : "did not complete: " + silence_;
  };
}

Heartbeats::Wait Heartbeats::my_wait(Clock::time_point now) const {
  Wait wait = mine_;
  // A wait asks about every millisecond, so one that has not asked since the last beat has ended.
  if (now - asked_ > interval_) wait.operation.clear();
  return wait;
}

void Heartbeats::loop() {
  Clock::time_point next_beat = Clock::now();
  Clock::time_point last_round = next_beat;
  std::array<pollfd, 2> waiting = {{{sockets_.socket.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  while (waiting[1].revents == 0) {
    if (Clock::now() >= next_beat) {
      send_beats();
      next_beat = Clock::now() + interval_;
    }
    const auto pause = std::chrono::ceil<milliseconds>(next_beat - Clock::now());
    waiting[1].revents = 0;
    ::poll(waiting.data(), waiting.size(), std::max(0, static_cast<int>(pause.count())));
    receive_beats();
    const Clock::time_point now = Clock::now();
    const Clock::duration round = now - std::exchange(last_round, now);
    if (round > 2 * interval_) {  // this process was stopped and could not hear peers
      const std::lock_guard<std::mutex> lock(mutex_);
      for (Peer& peer : peers_) {
        peer.last = std::min(now, peer.last + round);
        peer.wait.since += round;
      }
      mine_.since += round;
    }
    judge(now);
  }
}

void Heartbeats::send_beats() {
  Beat beat{};
  std::memcpy(beat.token.data(), sockets_.token.data(), beat.token.size());
  if (options_.phase) write_text(beat.phase, options_.phase());
  beat.from = sockets_.rank;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Wait wait = my_wait(Clock::now());
    beat.wait = wait.number;
    write_text(beat.operation, wait.operation);
  }
  for (size_t rank = 0; rank < sockets_.ranks.size(); ++rank) {
    beat.to = static_cast<int32_t>(rank);
    if (beat.to == beat.from) continue;
    for (const sockaddr_in& address : sockets_.ranks[rank].addresses) {
      // Some networks of a host may be unreachable. A failed send is an unheard beat.
      ::sendto(sockets_.socket.get(), &beat, sizeof(beat), MSG_DONTWAIT | MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    }
  }
}

void Heartbeats::receive_beats() {
  for (int packets = 0; packets < kMaxPacketsAtOnce; ++packets) {
    Beat beat{};
    const ssize_t length =
        ::recv(sockets_.socket.get(), &beat, sizeof(beat), MSG_DONTWAIT | MSG_TRUNC);
    if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (length != sizeof(beat)) continue;
    if (std::memcmp(beat.token.data(), sockets_.token.data(), kTokenBytes) != 0) continue;
    if (beat.to != sockets_.rank || beat.from == beat.to) continue;
    if (beat.from < 0 || beat.from >= std::ssize(peers_)) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    Peer& peer = peers_[static_cast<size_t>(beat.from)];
    const Clock::time_point now = Clock::now();
    const bool same = peer.heard && peer.wait.number == beat.wait;
    peer = {true,
            now,
            read_text(beat.phase),
            {beat.wait, read_text(beat.operation), same ? peer.wait.since : now}};
    heard_.notify_all();
  }
}

std::string Heartbeats::find_stall(Clock::time_point now) const {
  std::string waits;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const bool me = static_cast<int>(rank) == sockets_.rank;
    const Wait wait = me ? my_wait(now) : peers_[rank].wait;
    if (wait.operation.empty() || now - wait.since <= options_.timeout) return "";
    waits += (waits.empty() ? "" : ", ") + name(static_cast<int>(rank)) + " waits in " +
             wait.operation + " (wait " + std::to_string(wait.number) + ")";
  }
  return "no rank has made progress for " + in_seconds(options_.timeout) +
         " (resources.timeout_s): " + waits;
}

void Heartbeats::judge(Clock::time_point now) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (silence_.empty()) {
    for (int rank = 0; rank < std::ssize(peers_) && silence_.empty(); ++rank) {
      const Peer& peer = peers_[static_cast<size_t>(rank)];
      if (rank == sockets_.rank || !peer.heard || now - peer.last <= options_.timeout) continue;
      silence_ = name(rank) + " has been silent for " + in_seconds(options_.timeout) +
                 " (resources.timeout_s), last in " + (peer.phase.empty() ? "start" : peer.phase);
    }
    if (silence_.empty()) silence_ = find_stall(now);
    if (silence_.empty()) return;
    found_silent_ = now;
  }
  if (now - found_silent_ < options_.grace || std::exchange(told_, true)) return;
  const std::string silent = silence_;
  lock.unlock();
  if (options_.on_silence) options_.on_silence(silent);
}

}  // namespace dotresize
