#include "server/store/state_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/process/environment.h"
#include "server/access/endpoint.h"
#include "server/store/files.h"

namespace dotresize {
namespace fs = std::filesystem;

namespace {

/// Creates the directory, closed to other users, if it is missing.
void make_directory(const fs::path& dir) {
  std::error_code error;
  fs::create_directories(dir.parent_path(), error);
  if (!error && fs::create_directory(dir, error)) {
    fs::permissions(dir, fs::perms::owner_all, error);
  }
  if (!error && fs::is_directory(dir)) return;
  throw std::runtime_error("--state: cannot make the state directory " + dir.string() + ": " +
                           (error ? error.message() : "it is no directory"));
}

constexpr std::chrono::days kTokensKept{30};
constexpr char kLockFile[] = "lock";
constexpr size_t kMaxPathBytes = 4096;

/// Throws if other users can access the directory: it holds logs, paths and token hashes, and files
/// that are run.
void require_private(const fs::path& dir) {
  struct stat status {};
  if (::stat(dir.c_str(), &status) != 0) throw_errno("cannot use " + dir.string());
  if (status.st_uid != ::geteuid()) {
    throw std::runtime_error("the state directory " + dir.string() + " belongs to another user");
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw std::runtime_error("the state directory " + dir.string() +
                             " is open to other users; close it: chmod 700 " + dir.string());
  }
}

void require_unused_original(const fs::path& root) {
  const fs::path mark = root / kCopiedFromFile;
  const std::optional<std::string> original = read_file_start(mark, kMaxPathBytes);
  if (!original) return;
  std::error_code error;  // an original that cannot be seen is elsewhere or another user's
  const fs::path lock = fs::path(*original) / kLockFile;
  if (fs::path(*original) != fs::canonical(root) && fs::exists(lock, error) &&
      !try_lock_file(lock)) {
    throw StateDirInUse("the state directory " + root.string() + " is a copy of " + *original +
                        ", which another dotresize-server uses; stop that one first, or use the "
                        "copy on another machine");
  }
  fs::remove(mark);
}

}  // namespace

StateDir::StateDir(fs::path root) : root_(std::move(root)) {
  make_directory(root_);
  require_private(root_);
  lock_ = try_lock_file(root_ / kLockFile);
  if (!lock_) {
    throw StateDirInUse("the state directory " + root_.string() +
                        " is in use by another dotresize-server; give this one its own --state");
  }
  require_unused_original(root_);
  fs::create_directories(root_ / "jobs");
  fs::create_directories(tokens());
  remove_old_files(tokens(), kTokensKept);
}

std::string StateDir::space_fault() const {
  constexpr int64_t kLeastSpace = int64_t{16} << 20;
  return dotresize::space_fault(root_, kLeastSpace);
}

std::optional<std::string> StateDir::last_endpoint() const {
  constexpr size_t kMaxEndpointBytes = 300;
  std::optional<std::string> line = read_file_start(root_ / "endpoint", kMaxEndpointBytes);
  if (!line || line->empty() || line->back() != '\n') return std::nullopt;
  line->pop_back();
  return endpoint_fault(*line).empty() ? line : std::nullopt;
}

void StateDir::write_endpoint(const std::string& endpoint) const {
  write_private_file(root_ / "endpoint", endpoint + "\n");
}

}  // namespace dotresize
