#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/files/unique_fd.h"
#include "worker/comm/communicator.h"
#include "worker/comm/peer_sockets.h"

namespace dotresize {

struct HeartbeatOptions {
  /// Silence after which a peer counts as lost: `resources.timeout_s`.
  std::chrono::milliseconds timeout{};
  /// Time to wait at the start for the first beat of each peer.
  std::chrono::milliseconds start_timeout{60'000};
  /// Time that the main thread has to end the job by itself after a peer fell silent.
  std::chrono::milliseconds grace{3000};
  /// Returns this rank's phase, which each beat carries. Called from the heartbeat thread.
  std::function<std::string()> phase;
  /// Called once, from the heartbeat thread, with "rank 3 on node7 has been silent for ..." if the
  /// process still runs `grace` after a peer was found silent.
  std::function<void(const std::string&)> on_silence;
};

/// Detects ranks that are lost, and jobs in which no rank goes on. A thread sends beats over UDP,
/// whatever the main thread does, and receives those of the other ranks. A rank that is stopped,
/// dead or cut off is silent. Beats come ten times within the timeout and at least once a second,
/// so a lost packet does no harm. Time in which this process itself was stopped counts against no
/// peer. A beat also names the operation that the main thread waits in and the number of waits so
/// far. If all ranks stay in their waits for the timeout, they wait for each other, and all waits
/// are given up.
class Heartbeats {
 public:
  /// Starts the thread.
  Heartbeats(PeerSockets sockets, HeartbeatOptions options);
  ~Heartbeats();
  Heartbeats(const Heartbeats&) = delete;
  Heartbeats& operator=(const Heartbeats&) = delete;

  /// Returns when every peer has been heard; before that no peer counts as silent. Throws
  /// CommunicationError if a peer is not heard in time, because UDP packets do not get through.
  void wait_for_peers();

  /// Text such as "rank 3 on node7 has been silent for 600 s (resources.timeout_s), last in
  /// calibrate", or "no rank has made progress for 600 s (resources.timeout_s): rank 0 on node7
  /// waits in barrier (wait 9), ..."; empty while every peer is heard and one goes on. Once found,
  /// a text stays.
  std::string silence() const;

  /// Returns a limit that lets operations wait until there is a silence(). It refers to this
  /// object.
  WaitLimit wait_limit();

 private:
  using Clock = std::chrono::steady_clock;
  /// A wait of a rank's main thread.
  struct Wait {
    int64_t number = 0;       ///< count of the rank's waits, from 1
    std::string operation;    ///< empty: the thread does not wait
    Clock::time_point since;  ///< time when this number was first seen here
  };
  struct Peer {
    bool heard = false;
    Clock::time_point last;  ///< time of the last beat
    std::string phase;
    Wait wait;
  };

  void loop();
  void send_beats();
  void receive_beats();
  /// Returns this rank's wait. The functions from here on require the mutex to be held.
  Wait my_wait(Clock::time_point now) const;
  /// Returns an empty text if a rank goes on.
  std::string find_stall(Clock::time_point now) const;
  void judge(Clock::time_point now);
  std::string name(int rank) const;

  PeerSockets sockets_;
  HeartbeatOptions options_;
  Clock::duration interval_;
  UniqueFd wake_;  ///< readable when the thread is to end

  mutable std::mutex mutex_;  ///< guards the members from here to `told_`
  std::condition_variable heard_;
  std::vector<Peer> peers_;
  Wait mine_;                ///< latest wait of the main thread, ended or not
  Clock::time_point begun_;  ///< start of the latest wait, as its operation states it
  Clock::time_point asked_;  ///< time of the last check
  std::string silence_;
  Clock::time_point found_silent_;
  bool told_ = false;
  std::thread thread_;
};

}  // namespace dotresize
