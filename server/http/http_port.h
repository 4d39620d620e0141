#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/files/unique_fd.h"
#include "base/process/mutex.h"
#include "server/access/listeners.h"

namespace dotresize {

/// Accepts the connections of the HTTP port. A connection that has sent nothing yet waits without a
/// thread, and one address does not get all threads: whoever is slow keeps the port from nobody
/// else.
class HttpPort {
 public:
  /// `answer` serves a connection, one request, and leaves its socket open. It is called by many
  /// threads.
  HttpPort(Listeners listeners, std::function<void(int socket)> answer);
  /// Stops accepting. Lets the answers in progress end for a second, then cuts their connections.
  ~HttpPort();
  HttpPort(const HttpPort&) = delete;
  HttpPort& operator=(const HttpPort&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    UniqueFd socket;
    std::string address;
    Clock::time_point until;  ///< longest wait for a request and a thread
    bool readable = false;
  };

  void accept_loop();
  /// Waits for something to do: new connections, requests on those that wait, a free thread.
  void look();
  void accept(int listener);
  /// Drops the connection that has waited longest, of the address that has most of them waiting.
  void drop_one();
  /// Passes the connection to the threads, unless they are all busy or its address has its share.
  bool pass_on(Connection& connection);
  void serve_loop(const std::stop_token& stop);

  const Listeners listeners_;
  const std::function<void(int)> answer_;
  const UniqueFd wake_;            ///< eventfd: a thread is free, or the port stops
  std::list<Connection> waiting_;  ///< used by the thread that accepts
  Mutex mutex_;
  Condition passed_;
  Condition ended_;
  std::deque<Connection> ready_ DOTRESIZE_GUARDED_BY(mutex_);
  std::map<std::string, int> served_
      DOTRESIZE_GUARDED_BY(mutex_);  ///< connections in ready_ and open_, by address
  std::set<int> open_ DOTRESIZE_GUARDED_BY(mutex_);  ///< sockets of connections with a thread
  bool stopping_ DOTRESIZE_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;  ///< last members: they use all the others
  std::thread acceptor_;
};

}  // namespace dotresize
