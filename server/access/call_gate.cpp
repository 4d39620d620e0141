#include "server/access/call_gate.h"

#include <fcntl.h>
#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "server/common/api_error.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

std::string address_of(const CallOrigin& origin) {
  return origin.peer.substr(0, origin.peer.rfind(':'));  // without the port
}

bool is_denied(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
         status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
}

}  // namespace

std::string token_of(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  if (metadata.count("authorization") != 1) return "";
  const grpc::string_ref value = metadata.find("authorization")->second;
  return token_of_header({value.data(), value.size()});
}

CallOrigin origin_of(const grpc::ServerContextBase& context) {
  return {context.peer(), Credential(token_of(context)), &context};
}

std::string traceparent_of(const grpc::ServerContextBase& context) {
  const auto found = context.client_metadata().find("traceparent");
  if (found == context.client_metadata().end()) return "";
  const std::string_view text(found->second.data(), found->second.size());
  return is_traceparent(text) ? std::string(text) : "";
}

std::string holder_of(const Caller& caller, const CallOrigin& origin) {
  return caller.name.empty() ? address_of(origin) : caller.name;
}

bool RateLimit::try_take(const std::string& caller, Clock::time_point now) {
  if (rate_ == 0) return true;
  constexpr double kBurstSeconds = 10.0;
  constexpr size_t kMaxBuckets = 4096;
  const double capacity = kBurstSeconds * rate_;
  const auto calls_in = [&](const Bucket& bucket) {
    const std::chrono::duration<double> since = now - bucket.filled;
    return std::min(capacity, bucket.calls + rate_ * since.count());
  };
  const Lock lock(mutex_);
  if (buckets_.size() >= kMaxBuckets) {  // callers whose buckets are full need no record
    std::erase_if(buckets_, [&](const auto& entry) { return calls_in(entry.second) >= capacity; });
  }
  Bucket& bucket = buckets_.try_emplace(caller, Bucket{capacity, now}).first->second;
  bucket.calls = calls_in(bucket);
  bucket.filled = now;
  if (bucket.calls < 1.0) return false;
  bucket.calls -= 1.0;
  return true;
}

void RateLimit::take(const std::string& caller, Clock::time_point now) {
  if (try_take(caller, now)) return;
  throw try_again(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_CALLS",
                  "more than " + std::to_string(rate_) + " calls a second (--max-rate)",
                  std::chrono::seconds(1));
}

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
  const Lock lock(mutex_);
  // One write() per line keeps it whole, also while another program rotates the file.
  if (::write(file_.get(), text.data(), text.size()) != std::ssize(text)) {
    spdlog::error("the audit log cannot be written; it lacks this line: {}", text);
  }
}

grpc::Status CallGate::serve(
    const char* method, const CallOrigin& origin, Role least, std::string id,
    const std::function<void(const Caller& caller, std::string& id)>& body) {
  Caller caller;
  bool identified = false;
  grpc::Status status = answer(method, [&] {
    try {
      caller = access_.caller_of(origin.credential);
    } catch (const ApiError&) {
      // A failed login is rate-limited too: it costs an audit line.
      rate_.take(address_of(origin));
      throw;
    }
    rate_.take(holder_of(caller, origin));
    identified = true;
    require_role(caller, least);
    if (WorkBudget::exists()) return body(caller, id);
    RequestBudget budget(resources_, holder_of(caller, origin), origin.call);
    body(caller, id);
    budget.keep_for_answer();
  });
  if (is_denied(status)) {
    record_denied(method, caller.name, origin, id, status);
  } else if (identified && least != Role::kRead) {
    audit_.record(
        {method, caller.name, origin.peer, id, status.error_code(), status.error_message()});
  }
  return status;
}

void CallGate::record_denied(const char* method, const std::string& caller,
                             const CallOrigin& origin, const std::string& id,
                             const grpc::Status& status) {
  if (!denials_.try_take(address_of(origin))) {
    ++unrecorded_;
    return;
  }
  audit_.record({method, caller, origin.peer, id, status.error_code(), status.error_message(),
                 unrecorded_.exchange(0)});
}

Permit::Permit(CallGate& gate, const char* method, CallOrigin origin, Role least, std::string id,
               CallGate::Condition condition)
    : gate_(gate),
      method_(method),
      origin_(std::move(origin)),
      least_(least),
      id_(std::move(id)),
      condition_(std::move(condition)),
      generation_(gate.access_.generation()) {}

void Permit::check() {
  const uint64_t generation = gate_.access_.generation();
  if (generation == generation_) return;
  const Caller caller = gate_.access_.caller_of(origin_.credential);
  caller_ = caller.name;
  require_role(caller, least_);
  if (condition_) condition_(caller);
  generation_ = generation;
}

void Permit::record(const grpc::Status& status) {
  if (is_denied(status)) gate_.record_denied(method_, caller_, origin_, id_, status);
}

}  // namespace dotresize
