#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace dotresize {

/// The user's data are wrong: job file, model, tokens. Exit code 65, or INVALID_ARGUMENT over gRPC.
/// The message names the file, the key or tensor, the value, and what would be right.
class InputError : public std::runtime_error {
 public:
  explicit InputError(const std::string& description)
      : std::runtime_error(description), description_(description) {}
  /// `field`: the wrong key of the job ("method.width") or option ("--trace"). The text of what()
  /// is "FIELD: DESCRIPTION".
  InputError(const std::string& field, const std::string& description)
      : std::runtime_error(field + ": " + description), field_(field), description_(description) {}

  /// Empty if the error is not in one field.
  const std::string& field() const { return field_; }
  const std::string& description() const { return description_; }

 private:
  std::string field_;
  std::string description_;
};

/// A number exceeds the range of its dtype, or a computation produced NaN. Exit code 1.
class NonFiniteError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument is missing whose need only the data show. Exit code 64.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A required program is not installed or cannot be started. Exit code 69.
class ProgramMissing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

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
