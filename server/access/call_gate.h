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

/// Where a call comes from, by gRPC or over HTTP.
struct CallOrigin {
  std::string peer;                   ///< address and port, as gRPC writes it
  std::string token = {};             ///< that the call carries; empty: none
  std::optional<Caller> caller = {};  ///< who it is, if that is known already
};

CallOrigin origin_of(const grpc::ServerContextBase& context);

/// Whom limits are for: who has a token, else the address of the peer.
std::string holder_of(const Caller& caller, const CallOrigin& origin);

/// What each call of the API passes through, whichever way it has come. Safe to use from any
/// thread.
class CallGate {
 public:
  /// `access` and `audit` outlive it. `max_rate`: calls of one caller a second; 0: any number.
  CallGate(const Access& access, AuditLog& audit, int max_rate)
      : access_(access), audit_(audit), rate_(max_rate) {}

  /// answer() for a caller who has at least this role, with a line in the audit log for what
  /// changes something or is denied. `body` is called with the caller and the job's id, which it
  /// may set.
  grpc::Status serve(const char* method, const CallOrigin& origin, Role least, std::string id,
                     const std::function<void(const Caller& caller, std::string& id)>& body);

 private:
  /// Who calls, if that is not too often. UNAUTHENTICATED, RESOURCE_EXHAUSTED.
  Caller identify(const CallOrigin& origin);

  const Access& access_;
  AuditLog& audit_;
  RateLimit rate_;
  RateLimit denials_{10};  ///< lines of denied calls, by address: nobody fills the disk with them
  std::atomic<int64_t> unrecorded_ = 0;
};

}  // namespace dotresize
