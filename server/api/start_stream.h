#pragma once

#include <string>

#include "server/api/jobs_service.h"

namespace dotresize {

template <class Message, class Make>
grpc::ServerWriteReactor<Message>* JobsService::start_stream(
    const StreamKind& kind, const grpc::CallbackServerContext& context, const std::string& id,
    const Make& make) {
  grpc::ServerWriteReactor<Message>* reactor = nullptr;
  const CallOrigin origin = origin_of(context);
  const grpc::Status status = gate_.serve(
      kind.method, origin, kind.least, id, [&](const Caller& caller, const std::string&) {
        auto stream = make(caller);
        kind.pump.add(stream, holder_of(caller, origin));
        reactor = stream.get();  // owned by the pump until the call is over
      });
  return status.ok() ? reactor : new RefusedStream<Message>(status);
}

}  // namespace dotresize
