#include "server/launch/attempt.h"

#include <spdlog/spdlog.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/files/file_changes.h"
#include "base/text/checked_json.h"
#include "server/launch/process_table.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr char kSupervisorFile[] = "supervisor.json";
constexpr char kExitFile[] = "exit.json";
constexpr size_t kMaxRecordBytes = size_t{64} * 1024;

template <class Record>
std::optional<Record> read_record(const fs::path& path) {
  const std::optional<std::string> text = read_file_start(path, kMaxRecordBytes);
  if (!text) return std::nullopt;
  try {
    return json::parse(*text).get<Record>();
  } catch (const json::exception& error) {
    spdlog::error("{} is damaged: {}", path.string(), json_fault(error));
    return std::nullopt;
  }
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SupervisorRecord, pid, start_time, log_offset)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExitRecord, exit_code, signal)

void write_supervisor_record(const fs::path& dir, const SupervisorRecord& record) {
  write_private_file(dir / kSupervisorFile, json(record).dump() + "\n");
}

void write_exit_record(const fs::path& dir, const ExitRecord& record) {
  write_private_file(dir / kExitFile, json(record).dump() + "\n");
}

std::optional<SupervisorRecord> read_supervisor_record(const fs::path& dir) {
  return read_record<SupervisorRecord>(dir / kSupervisorFile);
}

Child start_attempt(const AttemptCommand& attempt) {
  files::create_directory(attempt.dir);
  const UniqueFd lock = try_lock_file(attempt.dir / "lock");
  if (!lock) throw std::runtime_error(attempt.dir.string() + " is already locked");
  std::vector<std::string> arguments = {"dotresize-server",
                                        "supervise",
                                        "--dir",
                                        attempt.dir.string(),
                                        "--umask",
                                        std::to_string(attempt.umask),
                                        "--"};
  arguments.insert(arguments.end(), attempt.command.begin(), attempt.command.end());
  return Child({.command = arguments,
                .program = attempt.supervisor.string(),
                .environment = attempt.environment,
                .descriptors = {{lock.get(), kLockDescriptor}},
                .directory = attempt.dir,
                .outlives_us = true});
}

AttemptStatus check_attempt(const fs::path& dir) {
  if (!fs::exists(dir)) return {Liveness::kVanished, {}, false};
  if (!try_lock_file(dir / "lock")) return {Liveness::kAlive, {}};
  const std::optional<ExitRecord> exit = read_record<ExitRecord>(dir / kExitFile);
  if (!exit) return {Liveness::kVanished, {}, fs::exists(dir / kSupervisorFile)};
  return {Liveness::kExited, *exit};
}

bool stop_attempt(const fs::path& dir) {
  const std::optional<SupervisorRecord> supervisor = read_supervisor_record(dir);
  // A suspended supervisor would never handle the signal.
  return supervisor && signal_process(supervisor->pid, supervisor->start_time, SIGTERM) &&
         signal_process(supervisor->pid, supervisor->start_time, SIGCONT);
}

}  // namespace dotresize
