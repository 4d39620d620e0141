#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "server/access/access.h"
#include "server/access/audit_log.h"
#include "server/access/rate_limit.h"

namespace dotresize {

/// Origin of a call, over gRPC or HTTP.
struct CallOrigin {
  std::string peer;                   ///< address and port, as gRPC writes it
  std::string token = {};             ///< token of the call; empty: none
  std::optional<Caller> caller = {};  ///< caller, if already authenticated
};

CallOrigin origin_of(const grpc::ServerContextBase& context);

/// Key that limits count by: the caller's name, or the peer's address if the server has no tokens.
std::string holder_of(const Caller& caller, const CallOrigin& origin);

/// Authentication, rate limit and audit log for every API call, over gRPC or HTTP. Thread-safe.
class CallGate {
 public:
  /// `access` and `audit` outlive it. `max_rate`: calls of one caller per second; 0: no limit.
  CallGate(const Access& access, AuditLog& audit, int max_rate)
      : access_(access), audit_(audit), rate_(max_rate) {}

  /// Runs `body` as answer() does, for a caller with at least the role `least`. Writes an audit
  /// line for a denied call, and for any other call that needs more than the role read. `body` gets
  /// the caller and the job's id, which it may set.
  grpc::Status serve(const char* method, const CallOrigin& origin, Role least, std::string id,
                     const std::function<void(const Caller& caller, std::string& id)>& body);

 private:
  /// Authenticates the caller and applies the rate limit. Throws UNAUTHENTICATED,
  /// RESOURCE_EXHAUSTED.
  Caller identify(const CallOrigin& origin);

  const Access& access_;
  AuditLog& audit_;
  RateLimit rate_;
  RateLimit denials_{10};  ///< audit lines of denied calls, per address: protects the disk
  std::atomic<int64_t> unrecorded_ = 0;
};

}  // namespace dotresize
