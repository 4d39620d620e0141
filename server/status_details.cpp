#include "server/status_details.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/printable.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace dotresize {
namespace {

// gRPC drops a call whose metadata exceed 8 KiB; message and details share them.
constexpr size_t kMaxMessage = 1500;
constexpr size_t kMaxDescription = 300;
constexpr size_t kMaxField = 100;
constexpr size_t kMaxViolations = 8;

google::rpc::BadRequest bad_request(const std::vector<FieldViolation>& violations) {
  google::rpc::BadRequest request;
  for (size_t i = 0; i < std::min(violations.size(), kMaxViolations); ++i) {
    auto* violation = request.add_field_violations();
    violation->set_field(printable(violations[i].field, kMaxField));
    violation->set_description(printable(violations[i].description, kMaxDescription));
  }
  return request;
}

google::rpc::ErrorInfo error_info(const ApiError& error) {
  google::rpc::ErrorInfo info;
  info.set_reason(error.reason);
  info.set_domain("dotresize");
  for (const auto& [key, value] : error.metadata) {
    (*info.mutable_metadata())[key] = printable(value, kMaxField);
  }
  return info;
}

}  // namespace

grpc::Status to_status(const ApiError& error) {
  google::rpc::Status details;
  details.set_code(error.code);
  details.set_message(printable(error.what(), kMaxMessage));
  details.add_details()->PackFrom(error_info(error));
  if (!error.violations.empty()) details.add_details()->PackFrom(bad_request(error.violations));
  return grpc::Status(error.code, details.message(), details.SerializeAsString());
}

grpc::Status answer(const char* method, const std::function<void()>& body) {
  try {
    body();
    return grpc::Status::OK;
  } catch (const ApiError& error) {
    return to_status(error);
  } catch (const std::exception& error) {
    spdlog::error("{} failed: {}", method, error.what());
    return to_status(ApiError(grpc::StatusCode::INTERNAL, "INTERNAL",
                              "the server could not do this; its log says why"));
  }
}

}  // namespace dotresize
