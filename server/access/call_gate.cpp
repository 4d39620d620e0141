#include "server/access/call_gate.h"

#include <utility>

#include "server/api_error.h"

namespace dotresize {
namespace {

std::string address_of(const CallOrigin& origin) {
  return origin.peer.substr(0, origin.peer.rfind(':'));  // without the port
}

}  // namespace

CallOrigin origin_of(const grpc::ServerContextBase& context) {
  return {.peer = context.peer(), .token = bearer_token(context)};
}

std::string holder_of(const Caller& caller, const CallOrigin& origin) {
  return caller.name.empty() ? address_of(origin) : caller.name;
}

grpc::Status CallGate::serve(
    const char* method, const CallOrigin& origin, Role least, std::string id,
    const std::function<void(const Caller& caller, std::string& id)>& body) {
  Caller caller;
  bool identified = false;
  grpc::Status status = answer(method, [&] {
    caller = identify(origin);
    identified = true;
    require_role(caller, least);
    body(caller, id);
  });
  const grpc::StatusCode code = status.error_code();
  const bool denied =
      code == grpc::StatusCode::UNAUTHENTICATED || code == grpc::StatusCode::PERMISSION_DENIED;
  if (denied && !denials_.try_take(address_of(origin))) {
    ++unrecorded_;
  } else if (denied || (identified && least != Role::kRead)) {
    const int64_t unrecorded = denied ? unrecorded_.exchange(0) : 0;
    audit_.record({method, caller.name, origin.peer, id, code, status.error_message(), unrecorded});
  }
  return status;
}

Caller CallGate::identify(const CallOrigin& origin) {
  Caller caller;
  try {
    caller = origin.caller ? *origin.caller : access_.authenticate(origin.token);
  } catch (const ApiError&) {
    rate_.take(address_of(origin));  // a failed login is rate-limited too: it costs an audit line
    throw;
  }
  rate_.take(holder_of(caller, origin));
  return caller;
}

}  // namespace dotresize
