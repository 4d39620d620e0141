#include "worker/commands/run/progress_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "base/attempt_file.h"
#include "base/environment.h"
#include "dotresize/v1/workers.grpc.pb.h"

namespace dotresize {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kShortestInterval(200);
constexpr seconds kHeartbeatInterval(2);
constexpr seconds kCallDeadline(2);

std::unique_ptr<v1::Workers::Stub> connect(const CoordinatorAddress& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  const auto credentials = address.ca.empty()
                               ? grpc::InsecureChannelCredentials()
                               : grpc::SslCredentials({address.ca, /*pem_private_key=*/"",
                                                       /*pem_cert_chain=*/""});
  return v1::Workers::NewStub(grpc::CreateCustomChannel(address.target, credentials, arguments));
}

void prepare(grpc::ClientContext& context, const CoordinatorAddress& address) {
  context.set_wait_for_ready(true);  // also what makes a lost channel connect again
  context.set_deadline(std::chrono::system_clock::now() + kCallDeadline);
  context.AddMetadata("authorization", "Bearer " + address.token);
}

bool same(const ProgressState& a, const ProgressState& b) {
  return a.phase == b.phase && a.junctions_done == b.junctions_done && a.fraction == b.fraction;
}

void fill(v1::Progress& message, const ProgressState& state) {
  message.set_phase(state.phase);
  message.set_junctions_done(static_cast<int32_t>(state.junctions_done));
  message.set_junctions_total(static_cast<int32_t>(state.junctions_total));
  message.set_tokens_per_second(state.tokens_per_second);
  message.set_eta_s(state.eta_s);
  message.set_fraction(state.fraction);
}

}  // namespace

std::optional<CoordinatorAddress> CoordinatorAddress::from_environment() {
  CoordinatorAddress address;
  address.target = environment_variable("DOTRESIZE_COORDINATOR");
  if (address.target.empty()) return std::nullopt;
  address.job_id = environment_variable("DOTRESIZE_JOB_ID");
  address.attempt = std::atoi(environment_variable("DOTRESIZE_ATTEMPT").c_str());
  address.token = environment_variable("DOTRESIZE_ATTEMPT_TOKEN");
  return address;
}

CoordinatorAddress CoordinatorAddress::from_file(const std::filesystem::path& attempt_file) {
  const AttemptFile attempt = read_attempt_file(attempt_file);
  return {attempt.coordinator, attempt.ca, attempt.job_id, attempt.attempt, attempt.token};
}

class ProgressClient::Impl {
 public:
  Impl(CoordinatorAddress address, const Progress& progress)
      : address_(std::move(address)),
        progress_(progress),
        stub_(connect(address_)),
        thread_([this] { loop(); }) {}

  ~Impl() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

 private:
  void loop() {
    ProgressState sent;
    auto last = std::chrono::steady_clock::time_point::min();
    std::unique_lock<std::mutex> lock(mutex_);
    while (!ended_) {
      const ProgressState now = progress_.state();
      const auto time = std::chrono::steady_clock::now();
      if (last == std::chrono::steady_clock::time_point::min() || !same(now, sent) ||
          time - last >= kHeartbeatInterval) {
        lock.unlock();
        send(now);
        lock.lock();
        sent = now;
        last = time;
      }
      wake_.wait_for(lock, kShortestInterval, [this] { return ended_; });
    }
  }

  void send(const ProgressState& state) {
    v1::HeartbeatRequest request;
    request.set_job_id(address_.job_id);
    request.set_attempt(address_.attempt);
    fill(*request.mutable_progress(), state);
    grpc::ClientContext context;
    prepare(context, address_);
    v1::HeartbeatResponse response;
    if (stub_->Heartbeat(&context, request, &response).ok() && response.stop())
      ::kill(::getpid(), SIGTERM);
  }

  CoordinatorAddress address_;
  const Progress& progress_;
  std::unique_ptr<v1::Workers::Stub> stub_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

ProgressClient::ProgressClient(CoordinatorAddress address, const Progress& progress)
    : impl_(std::make_unique<Impl>(std::move(address), progress)) {}
ProgressClient::~ProgressClient() = default;

void report_failure(const CoordinatorAddress& address, const Failure& failure) {
  v1::ReportFailureRequest request;
  request.set_job_id(address.job_id);
  request.set_attempt(address.attempt);
  v1::JobError& error = *request.mutable_error();
  error.set_code(failure.code);
  error.set_message(failure.message);
  error.set_rank(failure.rank);
  error.set_host(failure.host);
  error.set_phase(failure.phase);
  grpc::ClientContext context;
  prepare(context, address);
  v1::ReportFailureResponse response;
  connect(address)->ReportFailure(&context, request, &response);
}

}  // namespace dotresize
