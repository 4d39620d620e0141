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

/// PEM files; without `ca` there is no TLS.
struct TlsOptions {
  std::string ca;           ///< authority of the server's certificate
  std::string certificate;  ///< of this client; empty: none
  std::string key;          ///< of `certificate`
};

/// What says to the server who calls; empty: nothing. From the file that DOTRESIZE_TOKEN_FILE
/// names. Throws InputError if it cannot be read.
std::string token_from_environment();

/// A channel to one server. Calls throw RpcError; each has a deadline of its own. Connects on the
/// first call, and again by itself whenever the server was away.
class Connection {
 public:
  /// `server` is HOST:PORT. Throws InputError for files that are missing or cannot be read.
  /// A `token` goes to other machines over TLS alone: else InputError.
  explicit Connection(const std::string& server, const TlsOptions& tls = {},
                      std::string token = "");

  /// Tries again for up to ten seconds while the server is away, which is safe because of
  /// `request.request_id` (must not be empty). `on_retry` hears why, once.
  v1::Job create_job(const v1::CreateJobRequest& request,
                     const std::function<void(const std::string&)>& on_retry);
  /// The same for a sweep.
  v1::Sweep create_sweep(const v1::CreateSweepRequest& request,
                         const std::function<void(const std::string&)>& on_retry);
  v1::Job get_job(const std::string& id);
  v1::Sweep get_sweep(const std::string& id);
  /// Newest first, at most `limit` jobs, over as many pages as it takes.
  std::vector<v1::Job> list_jobs(const v1::ListJobsRequest::Filter& filter, int limit);
  v1::Job cancel_job(const std::string& id);
  v1::Job resume_job(const std::string& id, bool fresh);
  void delete_job(const std::string& id);
  /// What an ended job has left: of the model's directory, or else what people want to see.
  std::vector<v1::Artifact> list_artifacts(const std::string& id, bool model);
  v1::ServerInfo server_info();
  /// From now on the server starts no jobs; or it does again.
  v1::ServerInfo drain_server();
  v1::ServerInfo resume_server();

  /// Waits before another attempt: for `length`, or until a lost connection has been made again,
  /// which it says with true. gRPC connects only while somebody waits for it, so a plain sleep
  /// would not do.
  bool wait(std::chrono::milliseconds length);
  /// The same in steps of `tick`, until `interrupted` says true.
  void wait(std::chrono::milliseconds length, std::chrono::milliseconds tick,
            const std::function<bool()>& interrupted);

  /// Says in a call who calls. Before it is started.
  void identify(grpc::ClientContext& context) const;

  /// For the streaming calls.
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

  /// The pause before the next attempt, or nothing when it is time to give up.
  std::optional<Milliseconds> next();
  /// An attempt succeeded: the next failure is a first one again.
  void reset();

 private:
  using Clock = std::chrono::steady_clock;

  Milliseconds first_;
  Milliseconds longest_;
  Milliseconds patience_;
  Milliseconds pause_;
  std::optional<Clock::time_point> failing_since_;
};

/// A random (version 4) UUID from the operating system: the name of one intent to submit.
std::string new_request_id();

}  // namespace dotresize
