#include "server/api/trace_context.h"

#include <string_view>

#include "base/text/printable.h"

namespace dotresize {

std::string traceparent_of(const grpc::ServerContextBase& context) {
  const auto found = context.client_metadata().find("traceparent");
  if (found == context.client_metadata().end()) return "";
  const std::string_view text(found->second.data(), found->second.size());
  return is_traceparent(text) ? std::string(text) : "";
}

}  // namespace dotresize
