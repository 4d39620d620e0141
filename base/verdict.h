#pragma once

#include <optional>
#include <string>
#include <utility>

namespace dotresize {

/// What is wrong, in words.
struct Fault {
  std::string what;
};

/// Result of a check: all is well, or there is a fault. Its caller has to look at it.
class [[nodiscard]] Verdict {
 public:
  /// All is well.
  Verdict() = default;
  Verdict(Fault fault) : fault_(std::move(fault.what)) {}

  explicit operator bool() const { return !fault_; }
  /// Must not be called if all is well.
  const std::string& fault() const { return *fault_; }

 private:
  std::optional<std::string> fault_;
};

}  // namespace dotresize
