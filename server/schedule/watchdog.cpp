#include "server/schedule/watchdog.h"

#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/process/mutex.h"
#include "base/process/program.h"
#include "dotresize/v1/workers.grpc.pb.h"

namespace dotresize {
namespace {

constexpr std::chrono::seconds kInterval{3};
constexpr std::chrono::seconds kAnswerTimeout{10};
constexpr int kMaxFailures = 3;  // a single one may come from a suspended machine

}  // namespace

Watchdog::Watchdog(std::string target, std::function<Verdict()> check,
                   std::function<void(bool)> report)
    : target_(std::move(target)), check_(std::move(check)), report_(std::move(report)) {
  report_(true);
  thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

void Watchdog::loop(const std::stop_token& stop) {
  int failures = 0;
  bool serving = true;
  Mutex mutex;  // nobody else takes it: the wait ends at a request to stop
  Lock lock(mutex);
  Condition never;
  while (!never.wait_for(lock, stop, kInterval, [&] { return stop.stop_requested(); })) {
    const Verdict verdict = check_();
    if (static_cast<bool>(verdict) != serving) {
      serving = !serving;
      report_(serving);
      if (serving) {
        spdlog::info("serving again");
      } else {
        spdlog::error("not serving: {}", verdict.fault());
      }
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a new connection each time
    const auto stub = v1::Workers::NewStub(
        grpc::CreateCustomChannel(target_, grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kAnswerTimeout);
    v1::HeartbeatResponse response;
    // The call has no token: a refusal is the expected answer.
    const grpc::Status status = stub->Heartbeat(&context, v1::HeartbeatRequest(), &response);
    failures = status.error_code() == grpc::StatusCode::UNAUTHENTICATED ? 0 : failures + 1;
    if (failures == kMaxFailures) {
      spdlog::critical("the server does not answer at {}; it ends, and its jobs continue", target_);
      ::_exit(kExitUnavailable);
    }
  }
}

}  // namespace dotresize
