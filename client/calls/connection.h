#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.grpc.pb.h"

namespace dotresize {

/// Paths of PEM files; no TLS if `ca` is empty.
struct TlsOptions {
  std::string ca;           ///< CA of the server's certificate
  std::string certificate;  ///< this client's certificate; empty: none
  std::string key;          ///< key of `certificate`
};

/// Bearer token from the file that DOTRESIZE_TOKEN_FILE names; empty: no token. Throws InputError
/// if the file cannot be read or holds no token.
std::string token_from_environment();

/// A channel to one server. Calls throw RpcError; each has its own deadline. Connects on the first
/// call, and reconnects by itself after the server was away.
class Connection {
 public:
  /// `server` is HOST:PORT. Throws InputError for files that are missing or cannot be read, and for
  /// a `token` that would go to another machine without TLS.
  explicit Connection(const std::string& server, const TlsOptions& tls = {},
                      std::string token = "");

  /// Creates a job. Retries for up to ten seconds while the server is away, which is safe because
  /// of `request.request_id` (must not be empty). `on_retry` is called once, with the reason.
  v1::Job create_job(const v1::CreateJobRequest& request,
                     const std::function<void(const std::string&)>& on_retry);
  /// Creates a sweep; retries like create_job.
  v1::Sweep create_sweep(const v1::CreateSweepRequest& request,
                         const std::function<void(const std::string&)>& on_retry);
  v1::Job get_job(const std::string& id);
  v1::Sweep get_sweep(const std::string& id);
  /// Lists at most `limit` jobs, newest first, over as many pages as needed.
  std::vector<v1::Job> list_jobs(const v1::ListJobsRequest::Filter& filter, int limit);
  v1::Job cancel_job(const std::string& id);
  v1::Job resume_job(const std::string& id, bool fresh);
  void delete_job(const std::string& id);
  /// Lists the files of an ended job. `model`: includes all files of the model's directory, else
  /// only log, job file, plan, report and model card.
  std::vector<v1::Artifact> list_artifacts(const std::string& id, bool model);
  v1::ServerInfo server_info();
  /// Stops, or allows again, the start of jobs by the server.
  v1::ServerInfo drain_server();
  v1::ServerInfo resume_server();

  /// Waits `length` before another attempt. Returns true early if a lost connection has been made
  /// again. A plain sleep would not do: gRPC connects only while somebody waits for it.
  bool wait(std::chrono::milliseconds length);
  /// Waits like wait(length), in steps of `tick`, until `interrupted` returns true.
  void wait(std::chrono::milliseconds length, std::chrono::milliseconds tick,
            const std::function<bool()>& interrupted);

  /// Adds the token and the trace context to a call that is not started yet.
  void identify(grpc::ClientContext& context) const;

  /// Stub for streaming calls.
  v1::Jobs::Stub& stub() { return *stub_; }
  const std::string& server() const { return server_; }

 private:
  std::string server_;
  std::string token_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Jobs::Stub> stub_;
};

/// Doubling pauses between attempts, until `patience` has passed since the first failure.
class Backoff {
 public:
  using Milliseconds = std::chrono::milliseconds;

  Backoff(Milliseconds first, Milliseconds longest, Milliseconds patience);

  /// Pause before the next attempt; nullopt: give up.
  std::optional<Milliseconds> next();
  /// Reports a success: the next failure counts as the first again.
  void reset();

 private:
  using Clock = std::chrono::steady_clock;

  Milliseconds first_;
  Milliseconds longest_;
  Milliseconds patience_;
  Milliseconds pause_;
  std::optional<Clock::time_point> failing_since_;
};

/// Random (version 4) UUID from the operating system; identifies one intent to submit.
std::string new_request_id();

}  // namespace dotresize
