#include "server/access/remote_policy.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/errors.h"
#include "base/text/printable.h"
#include "job/spec/remote_url.h"
#include "server/api_error.h"

namespace dotresize {
namespace fs = std::filesystem;

RemotePolicy::RemotePolicy(std::vector<std::string> prefixes, const fs::path& state_dir)
    : prefixes_(std::move(prefixes)) {
  for (const std::string& prefix : prefixes_) {
    if (is_remote(prefix) && prefix.find("..") == std::string::npos &&
        prefix.find('@') == std::string::npos) {
      continue;
    }
    throw InputError("--allow-remote",
                     in_quotes(prefix) + " is not hf://OWNER/, s3://BUCKET/ or one with more");
  }
  if (prefixes_.empty()) return;
  const fs::path directory = state_dir / "remote";
  if (fs::create_directories(directory)) {
    fs::permissions(directory, fs::perms::owner_all);
  }
  cache_ = {fs::canonical(directory), static_cast<int64_t>(fs::space(directory).capacity / 4 * 3)};
}

void RemotePolicy::require(const std::string& field, const std::string& url) const {
  if (std::ranges::any_of(prefixes_, [&](const auto& prefix) { return is_url_below(url, prefix); }))
    return;
  throw ApiError(
      grpc::StatusCode::PERMISSION_DENIED, "REMOTE_NOT_ALLOWED",
      field + ": " + url + " does not lie below a URL that this server allows (--allow-remote)",
      {{"field", field}});
}

RemoteCopies copies_of(const v1::Job& job) {
  RemoteCopies copies;
  for (const v1::FetchedFile& file : job.fetched()) {
    copies[file.url()] = {file.path(), file.revision()};
  }
  return copies;
}

}  // namespace dotresize
