#pragma once

#include <optional>
#include <string>
#include <utility>

namespace dotresize {

/// Result of a check: all is well, or there is a fault. Its caller has to look at it.
class [[nodiscard]] Verdict {
 public:
  /// All is well.
  Verdict() = default;
  /// `what` is wrong, in words.
  static Verdict with_fault(std::string what) {
    Verdict verdict;
    verdict.fault_ = std::move(what);
    return verdict;
  }

  explicit operator bool() const { return !fault_; }
  /// Must not be called if all is well.
  const std::string& fault() const { return *fault_; }

 private:
  std::optional<std::string> fault_;
};

}  // namespace dotresize
