#pragma once

#include <grpcpp/support/server_interceptor.h>

#include "server/http/metrics.h"

namespace dotresize {

/// gRPC server interceptor that counts calls of the Jobs service and times the unary ones.
class CallMetrics final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  /// `metrics` outlives the server.
  explicit CallMetrics(Metrics& metrics) : metrics_(metrics) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override;

 private:
  Metrics& metrics_;
};

}  // namespace dotresize
