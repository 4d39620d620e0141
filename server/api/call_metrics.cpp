#include "server/api/call_metrics.h"

#include <chrono>
#include <string>
#include <string_view>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

class CallTimer final : public grpc::experimental::Interceptor {
 public:
  CallTimer(Metrics& metrics, std::string method, bool unary)
      : metrics_(metrics), method_(std::move(method)), unary_(unary) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const std::chrono::duration<double> time = Clock::now() - begin_;
      metrics_.count_call(method_, batch->GetSendStatus().error_code(),
                          unary_ ? std::optional(time.count()) : std::nullopt);
    }
    batch->Proceed();
  }

 private:
  using Clock = std::chrono::steady_clock;

  Metrics& metrics_;
  const std::string method_;
  const bool unary_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

grpc::experimental::Interceptor* CallMetrics::CreateServerInterceptor(ServerRpcInfo* call) {
  // Unknown methods are not counted: a client could create any number of metric labels with them.
  constexpr std::string_view kPrefix = "/dotresize.v1.Jobs/";
  const std::string_view name = call->method();
  if (!name.starts_with(kPrefix)) return nullptr;
  const std::string method(name.substr(kPrefix.size()));
  const auto* service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName("dotresize.v1.Jobs");
  if (service == nullptr || service->FindMethodByName(method) == nullptr) return nullptr;
  return new CallTimer(metrics_, method, call->type() == ServerRpcInfo::Type::UNARY);
}

}  // namespace dotresize
