#pragma once

#include <functional>
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

 private:
  void loop(const std::stop_token& stop);

  const std::string target_;
  const std::function<std::string()> fault_;
  const std::function<void(bool)> report_;
  std::jthread thread_;  ///< last member: it uses all the others
};

}  // namespace dotresize
