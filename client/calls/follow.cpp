#include "client/calls/follow.h"

#include "client/calls/server_stream.h"
#include "job/status/job_rows.h"

namespace dotresize {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupt_seen = 0;
  struct sigaction action {};
  action.sa_handler = [](int) { interrupt_seen = 1; };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, &previous_);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &previous_, nullptr); }

bool InterruptGuard::interrupted() const { return interrupt_seen != 0; }

std::optional<v1::Job> watch_job(Connection& connection, const std::string& id,
                                 const WatchObserver& observer,
                                 const std::function<bool()>& interrupted,
                                 const FollowOptions& options) {
  v1::WatchJobRequest request;
  request.set_id(id);
  Reconnection reconnection{connection, options, interrupted};
  v1::Job job;
  bool ever_connected = false;
  bool job_end_seen = false;
  const auto take = [&](const v1::Event& event) {
    reconnection.heard();
    request.set_after_seq(event.seq());
    observer.event(event);
    if (event.has_state_change() && has_ended(event.state_change().state())) job_end_seen = true;
  };
  const auto follow = [&] {
    job = connection.get_job(id);
    if (job_end_seen) return true;
    ever_connected = true;
    observer.connected(job);
    ServerStream<v1::Event> stream(connection, &v1::Jobs::Stub::PrepareAsyncWatchJob, request,
                                   options.stream_deadline);
    const auto tick = [&] {
      reconnection.heard();  // silent, but alive
      observer.tick();
    };
    const grpc::Status status = stream.read(interrupted, options.tick, tick, take);
    if (interrupted()) return false;
    if (status.ok() && has_ended(job.state())) return true;
    if (job_end_seen || status.error_code() == grpc::DEADLINE_EXCEEDED) return false;
    throw RpcError::of_stream(status, connection.server());
  };
  const bool ended = reconnection.run(
      follow, [&](const RpcError& error) { return ever_connected && is_transient(error.code()); },
      [&](const RpcError&) { observer.disconnected(); });
  return ended ? std::optional(job) : std::nullopt;
}

void watch_jobs(Connection& connection, const v1::ListJobsRequest::Filter& filter,
                const JobsObserver& observer, const std::function<bool()>& interrupted,
                const FollowOptions& options) {
  v1::WatchJobsRequest request;
  *request.mutable_filter() = filter;
  Reconnection reconnection{connection, options, interrupted};
  bool ever_connected = false;
  const auto take = [&](const v1::JobChange& change) {
    reconnection.heard();
    if (change.has_cursor()) request.set_cursor(change.cursor());
    observer.change(change);
  };
  const auto follow = [&] {
    // Checks that the server answers.
    connection.call(&v1::Jobs::Stub::GetServerInfo, v1::GetServerInfoRequest());
    ever_connected = true;
    observer.connected();
    ServerStream<v1::JobChange> stream(connection, &v1::Jobs::Stub::PrepareAsyncWatchJobs, request,
                                       options.stream_deadline);
    const grpc::Status status = stream.read(
        interrupted, options.tick, [&] { reconnection.heard(); }, take);
    if (interrupted() || status.error_code() == grpc::DEADLINE_EXCEEDED) return false;
    throw RpcError::of_stream(status, connection.server());
  };
  reconnection.run(
      follow, [&](const RpcError& error) { return ever_connected && is_transient(error.code()); },
      [&](const RpcError&) { observer.disconnected(); });
}

std::string read_log_tail(Connection& connection, const std::string& id, int64_t bytes) {
  v1::GetLogsRequest request;
  request.set_id(id);
  request.set_tail_bytes(bytes);
  const FollowOptions options;
  ServerStream<v1::LogChunk> stream(connection, &v1::Jobs::Stub::PrepareAsyncGetLogs, request,
                                    options.stream_deadline);
  std::string tail;
  const grpc::Status status = stream.read([] { return false; }, options.tick, [] {},
                                          [&](const v1::LogChunk& chunk) { tail += chunk.data(); });
  if (!status.ok()) throw RpcError(status, connection.server());
  return tail;
}

void read_logs(Connection& connection, const std::string& id, bool follow,
               const std::function<void(const std::string&)>& print) {
  v1::GetLogsRequest request;
  request.set_id(id);
  request.set_follow(follow);
  const FollowOptions options;
  Reconnection reconnection{connection, options};
  bool ever_connected = false;
  const auto take = [&](const v1::LogChunk& chunk) {
    reconnection.heard();
    print(chunk.data());
    request.set_offset(chunk.next_offset());
  };
  const auto read = [&] {
    const bool complete = has_ended(connection.get_job(id).state());
    ever_connected = true;
    ServerStream<v1::LogChunk> stream(connection, &v1::Jobs::Stub::PrepareAsyncGetLogs, request,
                                      options.stream_deadline);
    const grpc::Status status =
        stream.read([] { return false; }, options.tick, [&] { reconnection.heard(); }, take);
    // Another stream reads the lines that were written between the stream's end and the job's.
    if (status.ok() && (complete || !follow)) return true;
    throw RpcError::of_stream(status, connection.server());
  };
  reconnection.run(
      read,
      [&](const RpcError& error) { return follow && ever_connected && is_transient(error.code()); },
      [](const RpcError&) {});
}

}  // namespace dotresize
