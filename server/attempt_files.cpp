#include "server/attempt_files.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "server/files.h"

namespace dotresize {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr char kSupervisorFile[] = "supervisor.json";
constexpr char kExitFile[] = "exit.json";
constexpr size_t kMaxFileBytes = 64 * 1024;

template <class Record, class Convert>
std::optional<Record> read_record(const fs::path& path, Convert&& convert) {
  const std::optional<std::string> text = read_file_start(path, kMaxFileBytes);
  if (!text) return std::nullopt;
  try {
    return convert(json::parse(*text));
  } catch (const json::exception& error) {
    throw std::runtime_error(path.string() + " is damaged: " + error.what());
  }
}

}  // namespace

void write_supervisor_record(const fs::path& dir, const SupervisorRecord& record) {
  const json content = {
      {"pid", record.pid}, {"start_time", record.start_time}, {"log_offset", record.log_offset}};
  write_private_file(dir / kSupervisorFile, content.dump() + "\n");
}

void write_exit_record(const fs::path& dir, const ExitRecord& record) {
  const json content = {{"exit_code", record.exit_code}, {"signal", record.signal}};
  write_private_file(dir / kExitFile, content.dump() + "\n");
}

std::optional<SupervisorRecord> read_supervisor_record(const fs::path& dir) {
  return read_record<SupervisorRecord>(dir / kSupervisorFile, [](const json& content) {
    return SupervisorRecord{content.at("pid").get<pid_t>(),
                            content.at("start_time").get<uint64_t>(),
                            content.at("log_offset").get<int64_t>()};
  });
}

std::optional<ExitRecord> read_exit_record(const fs::path& dir) {
  return read_record<ExitRecord>(dir / kExitFile, [](const json& content) {
    return ExitRecord{content.at("exit_code").get<int>(), content.at("signal").get<int>()};
  });
}

}  // namespace dotresize
