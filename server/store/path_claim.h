#pragma once

#include <cstddef>
#include <string>

namespace dotresize {

/// Path without symbolic links, or URL, that a job reads or writes; held from its admission to its
/// end.
struct PathClaim {
  std::string field;  ///< "model.path"
  std::string path;
  bool writes = false;
};

/// Limits of the claims of one job. With links resolved, paths may be much longer than in its spec.
inline constexpr size_t kMostClaims = 20'000;
inline constexpr size_t kMostClaimedBytes = size_t{2} << 20;

/// Throws RESOURCE_EXHAUSTED for a job with too many `what`.
[[noreturn]] void refuse_claims(const std::string& what);

}  // namespace dotresize
