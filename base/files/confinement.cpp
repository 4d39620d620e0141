#include "base/files/confinement.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "base/errors.h"
#include "base/text/encodings.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kDescriptors[] = "/proc/self/fd";
constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr int kOpenPath = O_PATH | O_DIRECTORY | O_CLOEXEC;

/// A path below a descriptor's path.
struct DescriptorPath {
  int fd;
  fs::path below;  ///< empty: the descriptor itself
};

std::optional<DescriptorPath> as_descriptor_path(const fs::path& path) {
  const fs::path relative = path.lexically_relative(kDescriptors);
  if (relative.empty() || relative == ".") return std::nullopt;
  const auto fd = parse_number<int>(relative.begin()->string());
  if (!fd) return std::nullopt;
  fs::path below;
  for (auto part = std::next(relative.begin()); part != relative.end(); ++part) below /= *part;
  return DescriptorPath{*fd, below};
}

/// Creates the missing directories on the `way` below `at`, and opens the last one. On failure the
/// result is empty and errno is set.
UniqueFd make_beneath(UniqueFd at, const fs::path& way) {
  for (const fs::path& part : way) {
    if (!at) return at;
    if (part.empty() || part == ".") continue;
    if (::mkdirat(at.get(), part.c_str(), 0777) != 0 && errno != EEXIST) return UniqueFd();
    at = open_beneath(at.get(), part, kOpenPath);
  }
  return at ? open_beneath(at.get(), ".", kOpenDirectory) : UniqueFd();
}

constinit Confinement process_confinement;

/// The directory of hold_directory().
struct Held {
  fs::path name;
  UniqueFd fd;
};

Held& held() {
  static Held directory;
  return directory;
}

/// Returns the descriptor below which a path is opened: the one in the path, or the held one.
std::optional<DescriptorPath> pinned_place(const fs::path& path) {
  if (auto pinned = as_descriptor_path(path)) return pinned;
  if (!held().fd) return std::nullopt;
  const fs::path below = fs::absolute(path).lexically_relative(held().name);
  if (below.empty() || *below.begin() == "..") return std::nullopt;
  return DescriptorPath{held().fd.get(), below};
}

}  // namespace

UniqueFd open_beneath(int dir, const fs::path& relative, int flags, mode_t mode) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd;
  do {  // EAGAIN: a directory on the way has just been moved
    fd = ::syscall(SYS_openat2, dir, relative.c_str(), &how, sizeof(how));
  } while (fd < 0 && (errno == EINTR || errno == EAGAIN));
  if (fd < 0 && errno == ENOSYS) {
    throw std::runtime_error(
        "this kernel or its sandbox has no openat2, which keeps files beneath their directory: "
        "Linux 5.6 and later have it");
  }
  return UniqueFd(static_cast<int>(fd));
}

void hold_directory(const fs::path& name, const fs::path& directory) {
  UniqueFd fd(::open(directory.c_str(), kOpenPath));
  if (!fd) {
    throw InputError(name.string() + ": cannot be opened as " + directory.string() + ": " +
                     std::strerror(errno) +
                     "; the program must see the processes of the one that starts it");
  }
  held() = {fs::absolute(name), std::move(fd)};
}

fs::path path_for_others(int fd) {
  return fs::path("/proc") / std::to_string(::getpid()) / "fd" / std::to_string(fd) / ".";
}

fs::path path_of_descriptor(int fd) { return fs::path(kDescriptors) / std::to_string(fd); }

std::string shown_path(const fs::path& path) {
  const auto pinned = as_descriptor_path(path);
  if (!pinned) return path.string();
  std::error_code error;
  const fs::path name = fs::read_symlink(path_of_descriptor(pinned->fd), error);
  if (error) return path.string();
  return (pinned->below.empty() ? name : (name / pinned->below).lexically_normal()).string();
}

Confinement::Confinement(const std::vector<fs::path>& roots) {
  for (const fs::path& root : roots) roots_.push_back(fs::weakly_canonical(fs::absolute(root)));
}

const Confinement& Confinement::of_process() { return process_confinement; }

UniqueFd Confinement::open(const fs::path& path, int flags, mode_t mode) const {
  const auto pinned = pinned_place(path);
  if (pinned && !pinned->below.empty()) return open_beneath(pinned->fd, pinned->below, flags, mode);
  if (pinned || roots_.empty()) return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC, mode));
  std::error_code error;
  fs::path target;
  if ((flags & O_NOFOLLOW) == 0) {
    target = fs::weakly_canonical(fs::absolute(path), error);
  } else {  // the last component stays as it is
    const fs::path named = path.has_filename() ? path : path.parent_path();
    target = fs::weakly_canonical(fs::absolute(named).parent_path(), error) / named.filename();
  }
  if (error) {
    errno = error.value();
    return UniqueFd();
  }
  const Place place = place_of(target, path);
  const UniqueFd dir(::open(place.root.c_str(), kOpenPath));
  return dir ? open_beneath(dir.get(), place.way, flags, mode) : UniqueFd();
}

UniqueFd Confinement::make_directories(const fs::path& path) const {
  if (const auto pinned = pinned_place(path)) {
    return make_beneath(open_beneath(pinned->fd, ".", kOpenPath), pinned->below);
  }
  if (roots_.empty()) {
    fs::create_directories(path);
    return UniqueFd(::open(path.c_str(), kOpenDirectory));
  }
  const Place place = place_of(fs::weakly_canonical(fs::absolute(path)), path);
  return make_beneath(UniqueFd(::open(place.root.c_str(), kOpenPath)), place.way);
}

Confinement::Place Confinement::place_of(const fs::path& target, const fs::path& named) const {
  for (const fs::path& root : roots_) {
    const fs::path way = target.lexically_relative(root);  // neither has links
    if (!way.empty() && *way.begin() != "..") return {root, way};
  }
  throw InputError(named.string() +
                   ": is outside the directories that this job may read and write, or leads out of "
                   "them (--allow-root of the server)");
}

void confine_process(const std::vector<fs::path>& roots) {
  process_confinement = Confinement(roots);
}

}  // namespace dotresize
