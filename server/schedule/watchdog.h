#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace dotresize {

/// Looks every few seconds at the server from outside: asks `fault`, and calls the server itself at
/// `target`. If the server does not answer several times in a row, ends the process with
/// kExitUnavailable for its service manager to start it again: jobs go on meanwhile.
class Watchdog {
 public:
  /// `fault`: why the server cannot serve at the moment, empty if it can; `report` is told whenever
  /// that begins or ends. Both are called by a thread of the object.
  Watchdog(std::string target, std::function<std::string()> fault,
           std::function<void(bool serving)> report);
  ~Watchdog();

 private:
  void loop();
  bool server_answers() const;

  const std::string target_;
  const std::function<std::string()> fault_;
  const std::function<void(bool)> report_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace dotresize
