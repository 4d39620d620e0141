#pragma once

#include <atomic>
#include <filesystem>

namespace dotresize {

/// In the state directory.
inline constexpr char kDrainedFile[] = "drained";

/// Whether an operator has told the server to start no jobs. A file says so to later servers. Safe
/// to use from any thread.
class Drain {
 public:
  /// `file` is there while the server is drained.
  explicit Drain(std::filesystem::path file);

  bool is_on() const { return on_; }
  /// Throws std::runtime_error if the file cannot be made or removed.
  void set(bool on);

 private:
  const std::filesystem::path file_;
  std::atomic<bool> on_;
};

}  // namespace dotresize
