#include "server/access/audit_log.h"

#include <fcntl.h>
#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/text/printable.h"
#include "server/store/files.h"

namespace dotresize {

AuditLog::AuditLog(const std::filesystem::path& file)
    : file_(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600)) {
  if (!file_) throw_errno("cannot open " + file.string());
}

void AuditLog::record(const Entry& entry) {
  using google::protobuf::util::TimeUtil;
  constexpr size_t kMaxText = 300;
  nlohmann::ordered_json line = {{"time", TimeUtil::ToString(TimeUtil::GetCurrentTime())},
                                 {"method", entry.method},
                                 {"caller", entry.caller},
                                 {"peer", printable(entry.peer, kMaxText)},
                                 {"job", printable(entry.job, kMaxText)},
                                 {"allowed", entry.code == grpc::StatusCode::OK},
                                 {"code", static_cast<int>(entry.code)}};
  if (!entry.message.empty()) line["message"] = printable(entry.message, kMaxText);
  if (entry.unrecorded > 0) line["unrecorded"] = entry.unrecorded;
  const std::string text = line.dump() + "\n";
  const std::lock_guard lock(mutex_);
  // One write() per line keeps it whole, also while another program rotates the file.
  if (::write(file_.get(), text.data(), text.size()) != std::ssize(text)) {
    spdlog::error("the audit log cannot be written; this is missing in it: {}", text);
  }
}

}  // namespace dotresize
