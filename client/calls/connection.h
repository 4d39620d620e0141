#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/calls/rpc_error.h"
#include "dotresize/v1/jobs.grpc.pb.h"

namespace dotresize {

/// Paths of PEM files; no TLS if `ca` is empty.
struct TlsOptions {
  std::string ca;           ///< CA of the server's certificate
  std::string certificate;  ///< this client's certificate; empty: none
  std::string key;          ///< key of `certificate`
};

/// Returns the text of a PEM or token file, "" for no path. Throws InputError if it is missing or
/// larger than 1 MiB.
std::string read_small_file(const std::string& file);

/// Method of the stub that is answered once.
template <class Request, class Response>
using StubMethod = grpc::Status (v1::Jobs::Stub::*)(grpc::ClientContext*, const Request&,
                                                    Response*);

/// A channel to one server. Calls throw RpcError; each has its own deadline. Connects on the first
/// call, and reconnects by itself after the server was away.
class Connection {
 public:
  /// `server` is HOST:PORT. Throws InputError for files that are missing or cannot be read, and for
  /// a `token` that would go to another machine without TLS.
  explicit Connection(const std::string& server, const TlsOptions& tls = {},
                      std::string token = "");

  /// Calls a method of the stub that is answered once.
  template <class Request, class Response>
  Response call(StubMethod<Request, Response> method, const Request& request,
                std::chrono::seconds deadline = std::chrono::seconds(10)) {
    grpc::ClientContext context;
    prepare(context, deadline);
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (!status.ok()) throw RpcError(status, server_);
    return response;
  }

  /// Calls CreateJob or CreateSweep. Retries for up to ten seconds while the server is away, which
  /// is safe because of `request.request_id` (must not be empty). `on_retry` is called once, with
  /// the reason. `deadline`: of each try.
  template <class Request, class Response>
  Response create(StubMethod<Request, Response> method, const Request& request,
                  const std::function<void(const std::string&)>& on_retry,
                  std::chrono::seconds deadline);
  v1::Job get_job(const std::string& id);
  v1::Sweep get_sweep(const std::string& id);
  /// Lists at most `limit` jobs, newest first, over as many pages as needed.
  std::vector<v1::Job> list_jobs(const v1::ListJobsRequest::Filter& filter, int limit);

  /// Waits `length` before another attempt. Returns true early if a lost connection has been made
  /// again. A plain sleep would not do: gRPC connects only while somebody waits for it.
  bool wait(std::chrono::milliseconds length);

  /// Adds the deadline, the token and the trace context to a call that is not started yet.
  void prepare(grpc::ClientContext& context, std::chrono::seconds deadline) const;

  /// Stub for streaming calls.
  v1::Jobs::Stub& stub() { return *stub_; }
  const std::string& server() const { return server_; }

 private:
  std::string server_;
  std::string token_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Jobs::Stub> stub_;
};

/// Times of a call that is kept up while the server is away.
struct FollowOptions {
  std::chrono::milliseconds first_pause{200};
  std::chrono::milliseconds max_pause{5000};
  /// Limit of a server's absence.
  std::chrono::milliseconds patience{600'000};
  std::chrono::milliseconds tick{200};
  /// Lifetime of a stream; it is then requested anew, so that a dead connection is noticed.
  std::chrono::seconds stream_deadline{300};
};

/// Attempts to call a server that may be away, with doubling pauses in between, until `patience`
/// has passed since the first failure in a row. All calls that are tried again go through run().
struct Reconnection {
  Connection& connection;
  const FollowOptions options;
  const std::function<bool()> interrupted = [] { return false; };
  std::chrono::milliseconds pause = {};  ///< before the next attempt
  std::optional<std::chrono::steady_clock::time_point> failing_since =
      {};  ///< consecutive failures

  /// Calls `attempt` until it returns true; one that returns false is repeated at once. After an
  /// RpcError that `may_pass` it calls `tell`, waits and tries again; it throws the error if it may
  /// not pass, or if patience is at its end. Returns false once `interrupted` returns true.
  bool run(const std::function<bool()>& attempt,
           const std::function<bool(const RpcError&)>& may_pass,
           const std::function<void(const RpcError&)>& tell);
  /// Reports a sign of life: the next failure counts as the first again.
  void heard() { failing_since.reset(); }
};

template <class Request, class Response>
Response Connection::create(StubMethod<Request, Response> method, const Request& request,
                            const std::function<void(const std::string&)>& on_retry,
                            std::chrono::seconds deadline) {
  using std::chrono::milliseconds;
  Response created;
  bool told = false;
  Reconnection{*this, {milliseconds(250), milliseconds(2'000), milliseconds(10'000)}}.run(
      [&] {
        created = call(method, request, deadline);
        return true;
      },
      [](const RpcError& error) { return error.code() == grpc::UNAVAILABLE; },
      [&](const RpcError& error) {
        if (!std::exchange(told, true)) on_retry(error.what());
      });
  return created;
}

/// Random (version 4) UUID from the operating system; identifies one intent to submit.
std::string new_request_id();

/// Finds the one job whose id begins with `text`, with or without the prefix "j-". If there is
/// none, returns `text`, and the server reports the error. Throws InputError with the candidates if
/// there are several, and RpcError.
std::string find_job_id(Connection& connection, const std::string& text);

}  // namespace dotresize
