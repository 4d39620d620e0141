#include "client/logs.h"

#include <chrono>

#include "client/backoff.h"
#include "client/rpc_error.h"
#include "client/server_stream.h"
#include "client/watch.h"
#include "job/spec/job_state.h"

namespace dotresize {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// The stream is asked for afresh after this long, so that a dead connection is noticed.
constexpr seconds kStreamDeadline{300};

/// Prints what there is after `request.offset()`, and moves that on.
grpc::Status read_stream(Connection& connection, v1::GetLogsRequest& request, Backoff& backoff,
                         const std::function<void(const std::string&)>& print) {
  using Stream = ServerStream<v1::LogChunk>;
  Stream stream(
      [&](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
        return connection.stub().PrepareAsyncGetLogs(context, request, queue);
      },
      kStreamDeadline);
  v1::LogChunk chunk;
  for (;;) {
    const Stream::Next next = stream.next(chunk, kStreamDeadline);
    if (next == Stream::Next::kEnd) return stream.status();
    backoff.reset();
    if (next == Stream::Next::kTimeout) continue;
    print(chunk.data());
    request.set_offset(chunk.next_offset());
  }
}

}  // namespace

void read_logs(Connection& connection, const std::string& id, bool follow,
               const std::function<void(const std::string&)>& print) {
  v1::GetLogsRequest request;
  request.set_id(id);
  request.set_follow(follow);
  Backoff backoff(milliseconds(200), seconds(5), std::chrono::minutes(10));
  bool ever_connected = false;
  for (;;) {
    try {
      const bool complete = has_ended(connection.get_job(id).state());
      ever_connected = true;
      const grpc::Status status = read_stream(connection, request, backoff, print);
      if (!status.ok()) throw RpcError(status, connection.server());
      if (complete || !follow) return;
    } catch (const RpcError& error) {
      if (!follow || !ever_connected || !is_transient(error.code())) throw;
    }
    const auto pause = backoff.next();
    if (!pause) throw RpcError(grpc::Status(grpc::UNAVAILABLE, "gave up"), connection.server());
    connection.wait(*pause);
  }
}

}  // namespace dotresize
