#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace dotresize {

/// Checks the server every few seconds: calls `fault`, and calls the server itself at `target`. If
/// the server does not answer several times in a row, ends the process with kExitUnavailable, so
/// that its service manager restarts it; jobs go on meanwhile.
class Watchdog {
 public:
  /// `fault` returns why the server cannot serve now, empty if it can. `report` is called whenever
  /// that changes. Both are called on the watchdog's thread, except a first report(true) in this
  /// constructor.
  Watchdog(std::string target, std::function<std::string()> fault,
           std::function<void(bool serving)> report);
  ~Watchdog();

 private:
  void loop();

  const std::string target_;
  const std::function<std::string()> fault_;
  const std::function<void(bool)> report_;
  std::mutex mutex_;  ///< guards stopping_
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace dotresize
