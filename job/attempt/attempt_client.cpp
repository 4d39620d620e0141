#include "job/attempt/attempt_client.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include "dotresize/v1/workers.grpc.pb.h"

namespace dotresize {
namespace {

constexpr std::chrono::milliseconds kShortestInterval(200);
constexpr std::chrono::seconds kHeartbeatInterval(2);
constexpr std::chrono::seconds kCallDeadline(2);

std::unique_ptr<v1::Workers::Stub> connect(const AttemptFile& attempt) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  const auto credentials = attempt.ca.empty()
                               ? grpc::InsecureChannelCredentials()
                               : grpc::SslCredentials({attempt.ca, /*pem_private_key=*/"",
                                                       /*pem_cert_chain=*/""});
  return v1::Workers::NewStub(
      grpc::CreateCustomChannel(attempt.coordinator, credentials, arguments));
}

void prepare(grpc::ClientContext& context, const AttemptFile& attempt) {
  context.set_wait_for_ready(true);  // also makes a lost channel connect again
  context.set_deadline(std::chrono::system_clock::now() + kCallDeadline);
  context.AddMetadata("authorization", "Bearer " + attempt.token);
}

/// Sends a heartbeat. Returns true if the job must stop.
bool beat(v1::Workers::Stub& stub, const AttemptFile& attempt, const v1::Progress& progress) {
  v1::HeartbeatRequest request;
  request.set_job_id(attempt.job_id);
  request.set_attempt(attempt.attempt);
  *request.mutable_progress() = progress;
  grpc::ClientContext context;
  prepare(context, attempt);
  v1::HeartbeatResponse response;
  return stub.Heartbeat(&context, request, &response).ok() && response.stop();
}

}  // namespace

AttemptHeartbeats::AttemptHeartbeats(AttemptFile attempt, std::function<v1::Progress()> progress)
    : attempt_(std::move(attempt)), progress_(std::move(progress)) {
  // gRPC's threads start in this one and inherit its mask. Signals are for the working threads
  // only.
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

AttemptHeartbeats::~AttemptHeartbeats() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void AttemptHeartbeats::loop() {
  using Clock = std::chrono::steady_clock;
  const std::unique_ptr<v1::Workers::Stub> stub = connect(attempt_);
  std::optional<v1::Progress> sent;
  Clock::time_point last;
  std::unique_lock lock(mutex_);
  bool ending = false;
  while (!ending) {
    ending = ended_;
    lock.unlock();
    const v1::Progress now = progress_();
    // Rates and the remaining time change all the time.
    const bool changed = !sent || now.phase() != sent->phase() ||
                         now.junctions_done() != sent->junctions_done() ||
                         now.fraction() != sent->fraction();
    if (changed || (!ending && Clock::now() - last >= kHeartbeatInterval)) {
      if (beat(*stub, attempt_, now) && !ending) ::kill(::getpid(), SIGTERM);
      sent = now;
      last = Clock::now();
    }
    lock.lock();
    wake_.wait_for(lock, kShortestInterval, [this] { return ended_; });
  }
}

void report_failure(const AttemptFile& attempt, const Failure& failure) {
  v1::ReportFailureRequest request;
  request.set_job_id(attempt.job_id);
  request.set_attempt(attempt.attempt);
  v1::JobError& error = *request.mutable_error();
  error.set_code(failure.code);
  error.set_message(failure.message);
  error.set_rank(failure.rank);
  error.set_host(failure.host);
  error.set_phase(failure.phase);
  grpc::ClientContext context;
  prepare(context, attempt);
  v1::ReportFailureResponse response;
  connect(attempt)->ReportFailure(&context, request, &response);
}

}  // namespace dotresize
