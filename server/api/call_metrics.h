#pragma once

#include <grpcpp/support/server_interceptor.h>

#include "server/http/metrics.h"

namespace dotresize {

/// Counts the calls of the Jobs service, of which a server that has this interceptor hears.
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
