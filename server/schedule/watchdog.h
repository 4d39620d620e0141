#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/errors.h"

namespace dotresize {

/// Checks the server every few seconds: calls `check`, and calls the server itself at `target`. If
/// the server does not answer several times in a row, ends the process with kExitUnavailable, so
/// that its service manager restarts it; jobs go on meanwhile.
class Watchdog {
 public:
  /// `check` has a fault if the server cannot serve now. `report` is called whenever
  /// that changes. Both are called on the watchdog's thread, except a first report(true) in this
  /// constructor.
  Watchdog(std::string target, std::function<Verdict()> check,
           std::function<void(bool serving)> report);

 private:
  void loop(const std::stop_token& stop);

  const std::string target_;
  const std::function<Verdict()> check_;
  const std::function<void(bool)> report_;
  std::jthread thread_;  ///< last member: it uses all the others
};

}  // namespace dotresize
