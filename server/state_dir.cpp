#include "server/state_dir.h"

#include <utility>

#include "server/files.h"

namespace dotresize {
namespace fs = std::filesystem;

StateDir::StateDir(fs::path root) : root_(std::move(root)) {
  fs::create_directories(root_.parent_path());
  if (fs::create_directory(root_)) fs::permissions(root_, fs::perms::owner_all);
  lock_ = try_lock_file(root_ / "lock");
  if (!lock_) {
    throw StateDirInUse("the state directory " + root_.string() +
                        " is in use by another dotresize-server; give this one its own --state");
  }
  fs::create_directories(root_ / "jobs");
}

std::optional<std::string> StateDir::last_endpoint() const {
  constexpr size_t kMaxEndpointBytes = 300;
  std::optional<std::string> line = read_file_start(root_ / "endpoint", kMaxEndpointBytes);
  if (!line || line->empty() || line->back() != '\n') return std::nullopt;
  line->pop_back();
  return line;
}

void StateDir::write_endpoint(const std::string& endpoint) const {
  write_private_file(root_ / "endpoint", endpoint + "\n");
}

}  // namespace dotresize
