#include "server/sweep_heartbeats.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <utility>

#include "base/environment.h"
#include "base/parse_number.h"
#include "server/outcome.h"

namespace dotresize {
namespace {

constexpr std::chrono::milliseconds kShortestInterval(200);
constexpr std::chrono::seconds kHeartbeatInterval(2);
constexpr std::chrono::seconds kCallDeadline(2);

std::unique_ptr<v1::Workers::Stub> connect(const AttemptIdentity& identity) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return v1::Workers::NewStub(grpc::CreateCustomChannel(
      identity.coordinator, grpc::InsecureChannelCredentials(), arguments));
}

void prepare(grpc::ClientContext& context, const AttemptIdentity& identity) {
  context.set_wait_for_ready(true);  // also what makes a lost channel connect again
  context.set_deadline(std::chrono::system_clock::now() + kCallDeadline);
  context.AddMetadata("authorization", "Bearer " + identity.token);
}

}  // namespace

AttemptIdentity take_attempt_identity() {
  AttemptIdentity identity = {
      environment_variable("DOTRESIZE_COORDINATOR"), environment_variable("DOTRESIZE_JOB_ID"),
      parse_number<int>(environment_variable("DOTRESIZE_ATTEMPT")).value_or(0),
      environment_variable("DOTRESIZE_ATTEMPT_TOKEN")};
  ::unsetenv("DOTRESIZE_COORDINATOR");
  ::unsetenv("DOTRESIZE_ATTEMPT_TOKEN");
  return identity;
}

SweepHeartbeats::SweepHeartbeats(AttemptIdentity identity) : identity_(std::move(identity)) {
  // Signals are for the thread that runs the sweep; those of gRPC begin in this one.
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

SweepHeartbeats::~SweepHeartbeats() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void SweepHeartbeats::show(const v1::Progress& progress) {
  {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
    changed_ = true;
  }
  wake_.notify_one();
}

void SweepHeartbeats::print(const std::string& line) { std::cout << line << std::endl; }

void SweepHeartbeats::loop() {
  const std::unique_ptr<v1::Workers::Stub> stub = connect(identity_);
  std::unique_lock lock(mutex_);
  while (!ended_) {
    changed_ = false;
    const v1::Progress progress = progress_;
    lock.unlock();
    send(*stub, progress);
    lock.lock();
    wake_.wait_for(lock, kShortestInterval, [this] { return ended_; });
    wake_.wait_for(lock, kHeartbeatInterval, [this] { return ended_ || changed_; });
  }
  if (changed_) send(*stub, progress_);
}

void SweepHeartbeats::send(v1::Workers::Stub& stub, const v1::Progress& progress) {
  v1::HeartbeatRequest request;
  request.set_job_id(identity_.job_id);
  request.set_attempt(identity_.attempt);
  *request.mutable_progress() = progress;
  grpc::ClientContext context;
  prepare(context, identity_);
  v1::HeartbeatResponse response;
  if (stub.Heartbeat(&context, request, &response).ok() && response.stop()) {
    ::kill(::getpid(), SIGTERM);
  }
}

void SweepHeartbeats::report_failure(const Failure& failure) {
  v1::ReportFailureRequest request;
  request.set_job_id(identity_.job_id);
  request.set_attempt(identity_.attempt);
  *request.mutable_error() = to_job_error(failure);
  grpc::ClientContext context;
  prepare(context, identity_);
  v1::ReportFailureResponse response;
  connect(identity_)->ReportFailure(&context, request, &response);
}

}  // namespace dotresize
