#pragma once

#include <atomic>
#include <filesystem>

namespace dotresize {

/// Name of the file in the state directory.
inline constexpr char kDrainedFile[] = "drained";

/// Drain mode: while it is on, the server starts no jobs. A file keeps the mode across restarts.
/// Thread-safe.
class Drain {
 public:
  /// `file` exists while the server is drained.
  explicit Drain(std::filesystem::path file);

  bool is_on() const { return on_; }
  /// Throws std::runtime_error if the file cannot be made or removed.
  void set(bool on);

 private:
  const std::filesystem::path file_;
  std::atomic<bool> on_;
};

}  // namespace dotresize
