#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace dotresize {

/// The descriptor on which a supervisor holds the lock of attempt-N/lock.
inline constexpr int kLockDescriptor = 3;

/// attempt-N/supervisor.json: which process supervises the attempt. Written first.
struct SupervisorRecord {
  pid_t pid = 0;
  uint64_t start_time = 0;  ///< process_start_time(pid)
  int64_t log_offset = 0;   ///< where the attempt's output begins in the job's log
};

/// attempt-N/exit.json: how the attempt ended. Written last, when no process of it is left.
struct ExitRecord {
  int exit_code = -1;  ///< -1 if a signal ended the command; 127: it could not be run
  int signal = 0;      ///< that ended the command itself, else 0
};

void write_supervisor_record(const std::filesystem::path& dir, const SupervisorRecord& record);
void write_exit_record(const std::filesystem::path& dir, const ExitRecord& record);

/// Nothing if the file does not exist (yet). Throws std::runtime_error for a damaged file.
std::optional<SupervisorRecord> read_supervisor_record(const std::filesystem::path& dir);
std::optional<ExitRecord> read_exit_record(const std::filesystem::path& dir);

}  // namespace dotresize
