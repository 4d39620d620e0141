#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "worker/comm/communicator.h"
#include "worker/comm/peer_sockets.h"

namespace dotresize {

struct HeartbeatOptions {
  /// A peer that has not been heard for longer is silent: `resources.timeout_s`.
  std::chrono::milliseconds timeout{};
  /// How long the start waits for the first beat of each peer.
  std::chrono::milliseconds start_timeout{60'000};
  /// What the main thread has to end the job by itself once a peer is silent.
  std::chrono::milliseconds grace{3000};
  /// The phase this rank is in, sent with each beat. Called from the thread of the heartbeats.
  std::function<std::string()> phase;
  /// Called once, from the thread of the heartbeats, with "rank 3 on node7 has been silent for ..."
  /// if the process still runs `grace` after a peer was found silent.
  std::function<void(const std::string&)> on_silence;
};

/// Whether the other ranks live. A thread tells them over UDP that this rank does, whatever the
/// main thread computes or waits for, and listens to them: a rank that is stopped, dead or cut off
/// is silent. It beats ten times within the timeout, at least once a second, so that a lost packet
/// does no harm. Time in which this process was itself stopped counts against no peer.
class Heartbeats {
 public:
  /// Starts the thread.
  Heartbeats(PeerSockets sockets, HeartbeatOptions options);
  ~Heartbeats();
  Heartbeats(const Heartbeats&) = delete;
  Heartbeats& operator=(const Heartbeats&) = delete;

  /// Returns when every peer has been heard; before that none is called silent. Throws
  /// CommunicationError if one is not heard in time: UDP packets do not get through.
  void wait_for_peers();

  /// "rank 3 on node7 has been silent for 600 s (resources.timeout_s), last in calibrate"; empty
  /// while every peer is heard. A peer that was silent once stays so.
  std::string silence() const;

  /// An operation goes on for as long as every peer is heard. Refers to this.
  WaitLimit wait_limit() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    bool heard = false;
    Clock::time_point last;  ///< heard
    std::string phase;
  };

  void loop();
  void send_beats();
  void receive_beats();
  void judge(Clock::time_point now);
  /// The first peer that `wanted` holds for, -1 if there is none.
  template <typename Condition>
  int find_peer(const Condition& wanted) const;
  std::string name(int rank) const;

  PeerSockets sockets_;
  HeartbeatOptions options_;
  Clock::duration interval_;
  UniqueFd wake_;  ///< readable when the thread is to end

  mutable std::mutex mutex_;
  std::condition_variable heard_;
  std::vector<Peer> peers_;
  std::string silence_;
  Clock::time_point found_silent_;
  bool told_ = false;
  std::thread thread_;
};

}  // namespace dotresize
