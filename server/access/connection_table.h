#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "base/process/mutex.h"
#include "server/access/listeners.h"

namespace dotresize {

/// The TCP connections of one gRPC port, to cut those that nobody needs. gRPC owns the sockets and
/// closes them when it likes; an entry of a socket that has another peer by now is obsolete.
/// Thread-safe.
class ConnectionTable {
 public:
  using Clock = std::chrono::steady_clock;

  /// `most_of_one`: connections of one address. `most_threads`: threads that its calls hold.
  ConnectionTable(size_t most_of_one, size_t most_threads)
      : most_of_one_(most_of_one), most_threads_(most_threads) {}

  /// Adds a connection that was accepted. If its address has too many, cuts those that have been
  /// idle longest; returns false if none is idle.
  bool add(int socket, const Peer& peer);
  /// Cuts connections that have been idle longest, first those of the address that has most.
  /// Returns their number.
  size_t make_room();
  /// Cuts connections whose peers do not read the end of an answer: each holds a thread.
  size_t cut_stalled(Clock::time_point now = Clock::now());

  /// A call begins, its answer is complete, it ends. `call` is any unique address; `peer` is the
  /// connection's name in gRPC. A call that `holds_thread` holds it until its answer has been read.
  /// If those of an address hold too many, cuts the connection whose answer is unread for longest.
  void begin_call(const void* call, const std::string& peer, bool holds_thread);
  void answer_call(const void* call);
  void end_call(const void* call);

 private:
  struct Connection {
    Peer peer;
    std::string name;  ///< in gRPC
    Clock::time_point idle_since;
    int calls = 0;
  };
  struct Call {
    std::string peer;
    std::string address = {};  ///< whose thread it holds; empty: of none
    Clock::time_point answered = Clock::time_point::max();
  };
  using Entry = std::map<int, Connection>::iterator;

  Entry remove(Entry entry) DOTRESIZE_REQUIRES(mutex_);
  void remove_obsolete() DOTRESIZE_REQUIRES(mutex_);
  /// Cuts up to `most` connections without calls that `is_meant`, in the order of make_room().
  size_t cut_idle(size_t most, const std::function<bool(const Connection&)>& is_meant)
      DOTRESIZE_REQUIRES(mutex_);
  void cut(Entry entry) DOTRESIZE_REQUIRES(mutex_);
  /// Cuts the connection of this address whose answer is unread for longest, if there is one.
  void cut_oldest_unread(const std::string& address) DOTRESIZE_REQUIRES(mutex_);

  const size_t most_of_one_;
  const size_t most_threads_;
  Mutex mutex_;
  std::map<int, Connection> connections_ DOTRESIZE_GUARDED_BY(mutex_);         ///< by socket
  std::unordered_map<std::string, int> sockets_ DOTRESIZE_GUARDED_BY(mutex_);  ///< by name in gRPC
  std::map<std::string, size_t> of_address_
      DOTRESIZE_GUARDED_BY(mutex_);  ///< number of connections
  std::map<std::string, size_t> threads_
      DOTRESIZE_GUARDED_BY(mutex_);  ///< number that calls of an address hold
  std::unordered_map<const void*, Call> calls_ DOTRESIZE_GUARDED_BY(mutex_);
};

}  // namespace dotresize
