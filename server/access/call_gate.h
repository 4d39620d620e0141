#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/files/unique_fd.h"
#include "base/process/mutex.h"
#include "server/access/access.h"
#include "server/access/request_budget.h"

namespace dotresize {

/// Origin of a call, over gRPC or HTTP.
struct CallOrigin {
  std::string peer;                               ///< address and port, as gRPC writes it
  Credential credential = {};                     ///< the call's, or its session's
  const grpc::ServerContextBase* call = nullptr;  ///< null outside gRPC
};

/// Returns the token of the call's only "authorization: Bearer SECRET"; empty: none.
std::string token_of(const grpc::ServerContextBase& context);

/// Takes the credential of token_of().
CallOrigin origin_of(const grpc::ServerContextBase& context);

/// Returns the call's metadata `traceparent`; empty if it is missing or malformed.
std::string traceparent_of(const grpc::ServerContextBase& context);

/// Key that limits count by: the caller's name, or the peer's address if the server has no tokens.
std::string holder_of(const Caller& caller, const CallOrigin& origin);

/// Rate limit of calls: a token bucket per caller, which fills with `rate` calls per second up to
/// ten seconds' worth. Thread-safe.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  /// `rate` 0: no limit.
  explicit RateLimit(int rate) : rate_(rate) {}

  /// Counts a call of this caller. Returns false if the caller is over the limit.
  bool try_take(const std::string& caller, Clock::time_point now = Clock::now());
  /// Counts a call like try_take(). Throws RESOURCE_EXHAUSTED if the caller is over the limit.
  void take(const std::string& caller, Clock::time_point now = Clock::now());

 private:
  struct Bucket {
    double calls = 0.0;  ///< calls left
    Clock::time_point filled;
  };

  const int rate_;
  Mutex mutex_;
  std::map<std::string, Bucket> buckets_ DOTRESIZE_GUARDED_BY(mutex_);
};

/// Log of calls that change something or are denied: one JSON object per line. Thread-safe.
class AuditLog {
 public:
  /// Opens the file for appending; creates it with mode 0600 if missing. Throws std::system_error.
  explicit AuditLog(const std::filesystem::path& file);

  struct Entry {
    std::string method;  ///< "CancelJob"
    std::string caller;  ///< empty: unknown
    std::string peer;    ///< peer address
    std::string job;     ///< id; empty: none
    grpc::StatusCode code = grpc::StatusCode::OK;
    std::string message;     ///< reason of a refusal
    int64_t unrecorded = 0;  ///< denied calls left out since the last line of one (rate limit)
  };
  /// Appends a line. A failed write is only logged: a full disk must not block calls.
  void record(const Entry& entry);

 private:
  Mutex mutex_;  ///< one line after the other
  const UniqueFd file_ DOTRESIZE_GUARDED_BY(mutex_);
};

/// Authentication, rate limit, budget and audit log for every API call, over gRPC or HTTP.
/// Thread-safe.
class CallGate {
 public:
  /// `access` and `audit` outlive it. `max_rate`: calls of one caller per second; 0: no limit.
  CallGate(const Access& access, AuditLog& audit, int max_rate)
      : access_(access), audit_(audit), rate_(max_rate) {}

  using Condition = std::function<void(const Caller& caller)>;

  /// Runs `body` as answer() does, for a caller with at least the role `least`. Writes an audit
  /// line for a denied call, and for any other call that needs more than the role read. `body` gets
  /// the caller and the job's id, which it may set. Runs it within a budget of the call's holder,
  /// unless the thread has one.
  grpc::Status serve(const char* method, const CallOrigin& origin, Role least, std::string id,
                     const std::function<void(const Caller& caller, std::string& id)>& body);

  RequestResources& resources() { return resources_; }
  const Access& access() const { return access_; }

 private:
  friend class Permit;

  /// Writes the audit line of a denied call.
  void record_denied(const char* method, const std::string& caller, const CallOrigin& origin,
                     const std::string& id, const grpc::Status& status);

  const Access& access_;
  AuditLog& audit_;
  RateLimit rate_;
  RateLimit denials_{10};  ///< audit lines of denied calls, per address: protects the disk
  std::atomic<int64_t> unrecorded_ = 0;
  RequestResources resources_;
};

/// Permission of a call that lasts: a stream, or a call with a long step before what it changes. It
/// ends when the tokens are read again and the caller could not begin the call any more. Not
/// thread-safe.
class Permit {
 public:
  /// Made before the call is let in by CallGate::serve() with the same origin and role. `gate`
  /// outlives it. `condition` throws unless the caller may make the call; may be empty.
  Permit(CallGate& gate, const char* method, CallOrigin origin, Role least, std::string id,
         CallGate::Condition condition = {});

  /// Throws UNAUTHENTICATED or PERMISSION_DENIED if the permission has ended.
  void check();
  /// Writes an audit line if this is the status of a call that has ended for want of permission.
  void record(const grpc::Status& status);
  const CallOrigin& origin() const { return origin_; }

 private:
  CallGate& gate_;
  const char* const method_;
  const CallOrigin origin_;
  const Role least_;
  const std::string id_;
  const CallGate::Condition condition_;
  uint64_t generation_;  ///< generation of the tokens that were checked last
  std::string caller_;   ///< name, for the audit log
};

}  // namespace dotresize
