#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
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

/// Whether the other ranks live, and whether any rank goes on. A thread tells them over UDP that
/// this rank does, whatever the main thread computes or waits for, and listens to them: a rank that
/// is stopped, dead or cut off is silent. It beats ten times within the timeout, at least once a
/// second, so that a lost packet does no harm. Time in which this process was itself stopped counts
/// against no peer. A beat also says which operation the main thread waits in, and how many waits
/// it has begun: if all ranks stay in theirs for the timeout, they wait for each other, and none is
/// waited for any longer.
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

  /// "rank 3 on node7 has been silent for 600 s (resources.timeout_s), last in calibrate", or "no
  /// rank has gone on for 600 s (resources.timeout_s): rank 0 on node7 waits in barrier (wait 9),
  /// ..."; empty while every peer is heard and one goes on. What was found once stays so.
  std::string silence() const;

  /// An operation goes on for as long as there is no silence(). Refers to this.
  WaitLimit wait_limit();

 private:
  using Clock = std::chrono::steady_clock;
  /// What the main thread of a rank waits in.
  struct Wait {
    int64_t number = 0;       ///< of the rank's waits, from 1
    std::string operation;    ///< empty: it does not wait
    Clock::time_point since;  ///< when this number was first seen here
  };
  struct Peer {
    bool heard = false;
    Clock::time_point last;  ///< heard
    std::string phase;
    Wait wait;
  };

  void loop();
  void send_beats();
  void receive_beats();
  /// What this rank waits in. The mutex is held in all of these.
  Wait my_wait(Clock::time_point now) const;
  std::string find_silent_peer(Clock::time_point now) const;
  /// Empty if a rank goes on.
  std::string find_stall(Clock::time_point now) const;
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
  Wait mine_;                ///< the latest one, ended or not
  Clock::time_point begun_;  ///< as the main thread has said
  Clock::time_point asked_;  ///< the last time
  std::string silence_;
  Clock::time_point found_silent_;
  bool told_ = false;
  std::thread thread_;
};

}  // namespace dotresize
