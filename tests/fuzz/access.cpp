#include "server/access/access.h"

#include <filesystem>

#include "base/errors.h"
#include "server/common/api_error.h"
#include "tests/fuzz/targets.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

/// Requires that the file refuses `token`, which is not in it.
void check_access(const std::filesystem::path& file, const std::string& token) {
  const Access access(file);
  require(!access.open_to_all, "a file of tokens closes the server");
  try {
    access.caller_of(Credential(token));
    require(false, "an unknown token is refused");
  } catch (const ApiError& error) {
    require(error.code == grpc::StatusCode::UNAUTHENTICATED, "an unknown token is refused as such");
  }
}

}  // namespace

void fuzz_access(const std::string& bytes) {
  static const TemporaryDirectory dir;
  const auto file = dir.write("tokens", bytes);
  std::filesystem::permissions(
      file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  try {
    check_access(file, token_of_header(bytes));
    std::string secret;
    add_token(file, "fuzz", Role::kRead, [&](const std::string& made) { secret = made; });
    const Caller caller = Access(file).caller_of(Credential(secret));
    require(caller.name == "fuzz" && caller.role == Role::kRead, "a new token lets its caller in");
  } catch (const InputError&) {
    return;
  }
}

}  // namespace dotresize
