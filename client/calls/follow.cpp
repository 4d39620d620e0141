#include "client/calls/follow.h"

#include "client/calls/rpc_error.h"
#include "client/calls/server_stream.h"
#include "job/spec/job_state.h"

namespace dotresize {
namespace {

const grpc::Status kEndedEarly(grpc::UNAVAILABLE, "the stream ended early");

/// Policy for broken streams: reopen them if a connection has ever been made.
class Reconnection {
 public:
  Reconnection(Connection& connection, const std::function<bool()>& interrupted,
               const FollowOptions& options)
      : connection_(connection),
        interrupted_(interrupted),
        tick_(options.tick),
        backoff_(options.first_pause, options.max_pause, options.patience) {}

  void connected() { ever_connected_ = true; }
  /// Reports a message, or a stream that is silent but alive.
  void heard() { backoff_.reset(); }
  /// Calls `tell` and waits before the next attempt. Returns false if there is to be none.
  bool await(const RpcError& error, const std::function<void()>& tell) {
    if (!ever_connected_ || !is_transient(error.code())) return false;
    const auto length = backoff_.next();
    if (!length) return false;
    tell();
    connection_.wait(*length, tick_, interrupted_);
    return true;
  }

 private:
  Connection& connection_;
  const std::function<bool()>& interrupted_;
  const std::chrono::milliseconds tick_;
  Backoff backoff_;
  bool ever_connected_ = false;
};

class Watcher {
 public:
  Watcher(Connection& connection, const std::string& id, WatchObserver& observer,
          const std::function<bool()>& interrupted, const FollowOptions& options)
      : connection_(connection),
        observer_(observer),
        interrupted_(interrupted),
        options_(options),
        reconnection_(connection, interrupted, options) {
    request_.set_id(id);
  }

  std::optional<v1::Job> run() {
    while (!interrupted_()) {
      try {
        const v1::Job job = connection_.get_job(request_.id());
        if (job_end_seen_) return job;
        reconnection_.connected();
        observer_.connected(job);
        const grpc::Status status = follow();
        if (interrupted_()) break;
        if (status.ok() && has_ended(job.state())) return job;
        if (job_end_seen_ || status.error_code() == grpc::DEADLINE_EXCEEDED) continue;
        throw RpcError(status.ok() ? kEndedEarly : status, connection_.server());
      } catch (const RpcError& error) {
        const auto tell = [&] { observer_.disconnected(error.what()); };
        if (!reconnection_.await(error, tell)) throw;
      }
    }
    return std::nullopt;
  }

 private:
  /// Passes events on until the stream ends.
  grpc::Status follow() {
    using Stream = ServerStream<v1::Event>;
    Stream stream(
        [this](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
          connection_.identify(*context);
          return connection_.stub().PrepareAsyncWatchJob(context, request_, queue);
        },
        options_.stream_deadline);
    v1::Event event;
    while (!interrupted_()) {
      switch (stream.next(event, options_.tick)) {
        case Stream::Next::kMessage:
          take(event);
          break;
        case Stream::Next::kTimeout:
          reconnection_.heard();
          observer_.tick();
          break;
        case Stream::Next::kEnd:
          return stream.status();
      }
    }
    return grpc::Status::OK;
  }

  void take(const v1::Event& event) {
    reconnection_.heard();
    request_.set_after_seq(event.seq());
    observer_.event(event);
    if (event.has_state_change() && has_ended(event.state_change().state())) job_end_seen_ = true;
  }

  Connection& connection_;
  WatchObserver& observer_;
  const std::function<bool()>& interrupted_;
  const FollowOptions& options_;
  v1::WatchJobRequest request_;
  Reconnection reconnection_;
  bool job_end_seen_ = false;
};

class JobsWatcher {
 public:
  JobsWatcher(Connection& connection, const v1::ListJobsRequest::Filter& filter,
              JobsObserver& observer, const std::function<bool()>& interrupted,
              const FollowOptions& options)
      : connection_(connection),
        observer_(observer),
        interrupted_(interrupted),
        options_(options),
        reconnection_(connection, interrupted, options) {
    *request_.mutable_filter() = filter;
  }

  void run() {
    while (!interrupted_()) {
      try {
        connection_.server_info();  // checks that the server answers
        reconnection_.connected();
        observer_.connected();
        const grpc::Status status = follow();
        if (interrupted_() || status.error_code() == grpc::DEADLINE_EXCEEDED) continue;
        throw RpcError(status.ok() ? kEndedEarly : status, connection_.server());
      } catch (const RpcError& error) {
        if (!reconnection_.await(error, [this] { observer_.disconnected(); })) throw;
      }
    }
  }

 private:
  /// Passes changes on until the stream ends.
  grpc::Status follow() {
    using Stream = ServerStream<v1::JobChange>;
    Stream stream(
        [this](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
          connection_.identify(*context);
          return connection_.stub().PrepareAsyncWatchJobs(context, request_, queue);
        },
        options_.stream_deadline);
    v1::JobChange change;
    while (!interrupted_()) {
      const Stream::Next next = stream.next(change, options_.tick);
      if (next == Stream::Next::kEnd) return stream.status();
      reconnection_.heard();
      if (next == Stream::Next::kTimeout) continue;
      if (change.has_cursor()) request_.set_cursor(change.cursor());
      observer_.change(change);
    }
    return grpc::Status::OK;
  }

  Connection& connection_;
  JobsObserver& observer_;
  const std::function<bool()>& interrupted_;
  const FollowOptions& options_;
  v1::WatchJobsRequest request_;
  Reconnection reconnection_;
};

/// Prints the log after `request.offset()` and advances that.
grpc::Status read_stream(Connection& connection, v1::GetLogsRequest& request, Backoff& backoff,
                         std::chrono::seconds deadline,
                         const std::function<void(const std::string&)>& print) {
  using Stream = ServerStream<v1::LogChunk>;
  Stream stream(
      [&](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
        connection.identify(*context);
        return connection.stub().PrepareAsyncGetLogs(context, request, queue);
      },
      deadline);
  v1::LogChunk chunk;
  for (;;) {
    const Stream::Next next = stream.next(chunk, deadline);
    if (next == Stream::Next::kEnd) return stream.status();
    backoff.reset();
    if (next == Stream::Next::kTimeout) continue;
    print(chunk.data());
    request.set_offset(chunk.next_offset());
  }
}

}  // namespace

std::optional<v1::Job> watch_job(Connection& connection, const std::string& id,
                                 WatchObserver& observer, const std::function<bool()>& interrupted,
                                 const FollowOptions& options) {
  return Watcher(connection, id, observer, interrupted, options).run();
}

void watch_jobs(Connection& connection, const v1::ListJobsRequest::Filter& filter,
                JobsObserver& observer, const std::function<bool()>& interrupted,
                const FollowOptions& options) {
  JobsWatcher(connection, filter, observer, interrupted, options).run();
}

std::string read_log_tail(Connection& connection, const std::string& id, int64_t bytes) {
  v1::GetLogsRequest request;
  request.set_id(id);
  request.set_tail_bytes(bytes);
  const FollowOptions options;
  Backoff backoff(options.first_pause, options.max_pause, options.patience);
  std::string tail;
  const grpc::Status status = read_stream(connection, request, backoff, options.stream_deadline,
                                          [&](const std::string& piece) { tail += piece; });
  if (!status.ok()) throw RpcError(status, connection.server());
  return tail;
}

void read_logs(Connection& connection, const std::string& id, bool follow,
               const std::function<void(const std::string&)>& print) {
  v1::GetLogsRequest request;
  request.set_id(id);
  request.set_follow(follow);
  const FollowOptions options;
  Backoff backoff(options.first_pause, options.max_pause, options.patience);
  bool ever_connected = false;
  for (;;) {
    try {
      const bool complete = has_ended(connection.get_job(id).state());
      ever_connected = true;
      const grpc::Status status =
          read_stream(connection, request, backoff, options.stream_deadline, print);
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
