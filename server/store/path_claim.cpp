#include "server/store/path_claim.h"

#include <fmt/format.h>

#include "server/common/api_error.h"

namespace dotresize {

void refuse_claims(const std::string& what) {
  throw ApiError(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_PATHS",
                 fmt::format("the job names too many {}: with links resolved it may name {} paths "
                             "of {} MiB together; fewer or longer files would do",
                             what, kMostClaims, kMostClaimedBytes >> 20));
}

}  // namespace dotresize
