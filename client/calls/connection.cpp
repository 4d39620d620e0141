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
#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "job/status/job_rows.h"
#include "job/sweep/sweep_plan.h"

namespace dotresize {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::shared_ptr<grpc::ChannelCredentials> credentials(const TlsOptions& tls) {
  if (tls.certificate.empty() != tls.key.empty()) {
    throw InputError("--cert", "needs --key, and --key needs --cert");
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

std::string read_small_file(const std::string& file) {
  constexpr uint64_t kMaxBytes = 1 << 20;
  return file.empty() ? "" : read_whole_file(file, kMaxBytes);
}

Connection::Connection(const std::string& server, const TlsOptions& tls, std::string token)
    : server_(server), token_(std::move(token)) {
  grpc::ChannelArguments arguments;
  // gRPC's default pause of up to two minutes is too long for someone who has just restarted the
  // server.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetMaxReceiveMessageSize(kMaxSweepBytes);  // largest answer: a sweep
  channel_ = grpc::CreateCustomChannel(server, credentials(tls), arguments);
  stub_ = v1::Jobs::NewStub(channel_);
  const bool on_this_machine =
      std::ranges::any_of(std::array{"127.", "localhost:", "[::1]:", "unix:"},
                          [&](const char* start) { return server.starts_with(start); });
  if (!token_.empty() && tls.ca.empty() && !on_this_machine) {
    throw InputError(
        "DOTRESIZE_TOKEN_FILE",
        server + " is another machine: a token is sent there only over TLS (--tls-ca)");
  }
}

void Connection::prepare(grpc::ClientContext& context, seconds deadline) const {
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
  const std::string trace = environment_variable("TRACEPARENT");
  if (is_traceparent(trace)) context.AddMetadata("traceparent", trace);
}

v1::Sweep Connection::get_sweep(const std::string& id) {
  v1::GetSweepRequest request;
  request.set_id(id);
  return call(&v1::Jobs::Stub::GetSweep, request);
}

v1::Job Connection::get_job(const std::string& id) {
  v1::GetJobRequest request;
  request.set_id(id);
  return call(&v1::Jobs::Stub::GetJob, request);
}

std::vector<v1::Job> Connection::list_jobs(const v1::ListJobsRequest::Filter& filter, int limit) {
  constexpr int kMaxPage = 1000;
  std::vector<v1::Job> jobs;
  v1::ListJobsRequest request;
  *request.mutable_filter() = filter;
  do {
    const int wanted = limit - static_cast<int>(jobs.size());
    request.set_page_size(std::min(wanted, kMaxPage));
    v1::ListJobsResponse page = call(&v1::Jobs::Stub::ListJobs, request);
    for (v1::Job& job : *page.mutable_jobs()) {
      if (std::ssize(jobs) < limit) jobs.push_back(std::move(job));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && std::ssize(jobs) < limit);
  return jobs;
}

bool Connection::wait(milliseconds length) {
  if (channel_->GetState(true) == GRPC_CHANNEL_READY) {
    std::this_thread::sleep_for(length);
    return false;
  }
  return channel_->WaitForConnected(std::chrono::system_clock::now() + length);
}

bool Reconnection::run(const std::function<bool()>& attempt,
                       const std::function<bool(const RpcError&)>& may_pass,
                       const std::function<void(const RpcError&)>& tell) {
  using Clock = std::chrono::steady_clock;
  while (!interrupted()) {
    try {
      if (attempt()) return true;
    } catch (const RpcError& error) {
      if (!may_pass(error)) throw;
      const Clock::time_point now = Clock::now();
      if (!failing_since) {
        failing_since = now;
        pause = options.first_pause;
      }
      const milliseconds wait = pause;
      if (now + wait > *failing_since + options.patience) throw;
      pause = std::min(2 * pause, options.max_pause);
      tell(error);
      const Clock::time_point until = Clock::now() + wait;
      while (!interrupted() && Clock::now() < until) {
        if (connection.wait(std::min(options.tick, wait))) break;
      }
    }
  }
  return false;
}

std::string new_request_id() {
  std::string bytes = random_bytes(16);
  bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x40);  // RFC 9562, section 5.4: version 4
  bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);  // variant
  std::string id = hex_digits(bytes);
  for (const size_t hyphen : {8, 13, 18, 23}) id.insert(hyphen, 1, '-');
  return id;
}

std::string find_job_id(Connection& connection, const std::string& text) {
  constexpr std::string_view kPrefix = "j-";
  constexpr size_t kIdDigits = 16;
  const bool prefixed = text.starts_with(kPrefix);
  const std::string digits = prefixed ? text.substr(kPrefix.size()) : text;
  const bool complete = prefixed && digits.size() == kIdDigits;
  if (complete || digits.empty() || digits.size() > kIdDigits ||
      digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return text;
  }
  constexpr int kShown = 10;
  v1::ListJobsRequest::Filter filter;
  filter.set_id_prefix(std::string(kPrefix) + digits);
  std::vector<v1::Job> jobs = connection.list_jobs(filter, kShown);
  // An older server does not know the filter.
  std::erase_if(jobs,
                [&](const v1::Job& job) { return !job.id().starts_with(filter.id_prefix()); });
  if (jobs.empty()) return text;
  if (jobs.size() == 1) return jobs.front().id();
  std::string candidates;
  for (const v1::Job& job : jobs) {
    candidates +=
        "\n  " + printable(job.id()) + "  " + printable(job.spec().name()) + "  " + state_name(job);
  }
  throw InputError("several jobs begin with " + in_quotes(text) + ":" + candidates);
}

}  // namespace dotresize
