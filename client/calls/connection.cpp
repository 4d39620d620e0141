#include "client/calls/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/process/environment.h"
#include "base/text/printable.h"
#include "base/text/traceparent.h"
#include "client/calls/rpc_error.h"
#include "job/sweep/variant_paths.h"

namespace dotresize {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kUnaryDeadline{10};
constexpr seconds kHashingDeadline{60};
constexpr seconds kSweepDeadline{120};  // the server plans up to thousands of jobs

template <typename Request, typename Response>
using UnaryCall = grpc::Status (v1::Jobs::Stub::*)(grpc::ClientContext*, const Request&, Response*);

template <typename Request, typename Response>
Response call(Connection& connection, UnaryCall<Request, Response> method, const Request& request,
              seconds deadline = kUnaryDeadline) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  connection.identify(context);
  Response response;
  const grpc::Status status = (connection.stub().*method)(&context, request, &response);
  if (!status.ok()) throw RpcError(status, connection.server());
  return response;
}

/// Calls `body`, with retries for ten seconds while the server is away.
template <class Body>
auto patiently(Connection& connection, const std::function<void(const std::string&)>& on_retry,
               const Body& body) {
  Backoff backoff(milliseconds(250), seconds(2), seconds(10));
  for (bool first = true;; first = false) {
    try {
      return body();
    } catch (const RpcError& error) {
      if (error.code() != grpc::UNAVAILABLE) throw;
      const auto pause = backoff.next();
      if (!pause) throw;
      if (first) on_retry(error.what());
      connection.wait(*pause);
    }
  }
}

/// Arguments with short reconnect pauses. gRPC's default of up to two minutes is too long for
/// someone who has just restarted the server.
grpc::ChannelArguments channel_arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetMaxReceiveMessageSize(kMaxSweepBytes);  // largest answer: a sweep
  return arguments;
}

std::string read_small_file(const std::string& file) {
  constexpr uint64_t kMaxBytes = 1 << 20;
  return file.empty() ? "" : read_whole_file(file, kMaxBytes);
}

bool is_this_machine(const std::string& server) {
  return std::ranges::any_of(std::array{"127.", "localhost:", "[::1]:", "unix:"},
                             [&](const char* start) { return server.starts_with(start); });
}

std::shared_ptr<grpc::ChannelCredentials> credentials(const TlsOptions& tls) {
  if (tls.certificate.empty() != tls.key.empty()) {
    throw InputError("--cert", "needs --key, and the other way round");
  }
  if (tls.ca.empty()) {
    if (!tls.key.empty()) throw InputError("--cert", "needs --tls-ca");
    return grpc::InsecureChannelCredentials();
  }
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = read_small_file(tls.ca);
  options.pem_cert_chain = read_small_file(tls.certificate);
  options.pem_private_key = read_small_file(tls.key);
  return grpc::SslCredentials(options);
}

}  // namespace

std::string token_from_environment() {
  const std::string file = environment_variable("DOTRESIZE_TOKEN_FILE");
  std::string token = read_small_file(file);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (!is_printable(token)) throw InputError("DOTRESIZE_TOKEN_FILE", file + " holds no token");
  return token;
}

Connection::Connection(const std::string& server, const TlsOptions& tls, std::string token)
    : server_(server),
      token_(std::move(token)),
      channel_(grpc::CreateCustomChannel(server, credentials(tls), channel_arguments())),
      stub_(v1::Jobs::NewStub(channel_)) {
  if (!token_.empty() && tls.ca.empty() && !is_this_machine(server)) {
    throw InputError("DOTRESIZE_TOKEN_FILE",
                     server + " is another machine: a token goes there over TLS alone, --tls-ca");
  }
}

void Connection::identify(grpc::ClientContext& context) const {
  if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
  const std::string trace = environment_variable("TRACEPARENT");
  if (is_traceparent(trace)) context.AddMetadata("traceparent", trace);
}

v1::Job Connection::create_job(const v1::CreateJobRequest& request,
                               const std::function<void(const std::string&)>& on_retry) {
  return patiently(*this, on_retry,
                   [&] { return call(*this, &v1::Jobs::Stub::CreateJob, request); });
}

v1::Sweep Connection::create_sweep(const v1::CreateSweepRequest& request,
                                   const std::function<void(const std::string&)>& on_retry) {
  return patiently(*this, on_retry, [&] {
    return call(*this, &v1::Jobs::Stub::CreateSweep, request, kSweepDeadline);
  });
}

v1::Sweep Connection::get_sweep(const std::string& id) {
  v1::GetSweepRequest request;
  request.set_id(id);
  return call(*this, &v1::Jobs::Stub::GetSweep, request);
}

v1::Job Connection::get_job(const std::string& id) {
  v1::GetJobRequest request;
  request.set_id(id);
  return call(*this, &v1::Jobs::Stub::GetJob, request);
}

std::vector<v1::Job> Connection::list_jobs(const v1::ListJobsRequest::Filter& filter, int limit) {
  constexpr int kMaxPage = 1000;
  std::vector<v1::Job> jobs;
  v1::ListJobsRequest request;
  *request.mutable_filter() = filter;
  do {
    const int wanted = limit - static_cast<int>(jobs.size());
    request.set_page_size(std::min(wanted, kMaxPage));
    v1::ListJobsResponse page = call(*this, &v1::Jobs::Stub::ListJobs, request);
    for (v1::Job& job : *page.mutable_jobs()) {
      if (std::ssize(jobs) < limit) jobs.push_back(std::move(job));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && std::ssize(jobs) < limit);
  return jobs;
}

v1::Job Connection::cancel_job(const std::string& id) {
  v1::CancelJobRequest request;
  request.set_id(id);
  return call(*this, &v1::Jobs::Stub::CancelJob, request);
}

v1::Job Connection::resume_job(const std::string& id, bool fresh) {
  v1::ResumeJobRequest request;
  request.set_id(id);
  request.set_fresh(fresh);
  return call(*this, &v1::Jobs::Stub::ResumeJob, request);
}

void Connection::delete_job(const std::string& id) {
  v1::DeleteJobRequest request;
  request.set_id(id);
  call(*this, &v1::Jobs::Stub::DeleteJob, request);
}

std::vector<v1::Artifact> Connection::list_artifacts(const std::string& id, bool model) {
  v1::ListArtifactsRequest request;
  request.set_id(id);
  request.set_model(model);
  const v1::ListArtifactsResponse found =
      call(*this, &v1::Jobs::Stub::ListArtifacts, request, kHashingDeadline);
  return {found.artifacts().begin(), found.artifacts().end()};
}

v1::ServerInfo Connection::server_info() {
  return call(*this, &v1::Jobs::Stub::GetServerInfo, v1::GetServerInfoRequest());
}

v1::ServerInfo Connection::drain_server() {
  return call(*this, &v1::Jobs::Stub::DrainServer, v1::DrainServerRequest());
}

v1::ServerInfo Connection::resume_server() {
  return call(*this, &v1::Jobs::Stub::ResumeServer, v1::ResumeServerRequest());
}

bool Connection::wait(milliseconds length) {
  if (channel_->GetState(true) == GRPC_CHANNEL_READY) {
    std::this_thread::sleep_for(length);
    return false;
  }
  return channel_->WaitForConnected(std::chrono::system_clock::now() + length);
}

void Connection::wait(milliseconds length, milliseconds tick,
                      const std::function<bool()>& interrupted) {
  const auto until = std::chrono::steady_clock::now() + length;
  while (!interrupted() && std::chrono::steady_clock::now() < until) {
    if (wait(std::min(tick, length))) return;
  }
}

Backoff::Backoff(Milliseconds first, Milliseconds longest, Milliseconds patience)
    : first_(first), longest_(longest), patience_(patience), pause_(first) {}

std::optional<Backoff::Milliseconds> Backoff::next() {
  const Clock::time_point now = Clock::now();
  if (!failing_since_) failing_since_ = now;
  const Milliseconds pause = pause_;
  if (now + pause > *failing_since_ + patience_) return std::nullopt;
  pause_ = std::min(2 * pause_, longest_);
  return pause;
}

void Backoff::reset() {
  failing_since_.reset();
  pause_ = first_;
}

std::string new_request_id() {
  std::string bytes = random_bytes(16);
  bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x40);  // RFC 9562, section 5.4: version 4
  bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);  // variant
  std::string id = hex_digits(bytes);
  for (const size_t hyphen : {8, 13, 18, 23}) id.insert(hyphen, 1, '-');
  return id;
}

}  // namespace dotresize
