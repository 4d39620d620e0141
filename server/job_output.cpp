#include "server/job_output.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <utility>

#include "base/errors.h"
#include "base/human_text.h"
#include "base/output_owner.h"
#include "base/partial_path.h"
#include "server/files.h"

namespace dotresize {
namespace fs = std::filesystem;

PinnedDirectory::PinnedDirectory(const fs::path& path) {
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd at(::open("/", kFlags));
  for (const fs::path& part : path.relative_path()) {
    if (!at) return;
    if (!part.empty()) at = UniqueFd(::openat(at.get(), part.c_str(), kFlags));
  }
  fd_ = std::move(at);
}

fs::path PinnedDirectory::path() const {
  return fs::path("/proc/self/fd") / std::to_string(fd_.get());
}

std::optional<std::string> read_pinned_file(const fs::path& path, size_t max_bytes) {
  const PinnedDirectory directory(path.parent_path());
  if (!directory) return std::nullopt;
  const fs::path name = directory.path() / path.filename();
  const UniqueFd file(::open(name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status = {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  if (static_cast<size_t>(status.st_size) > max_bytes) {
    throw InputError(path.string() + ": is larger than " +
                     human_bytes(static_cast<int64_t>(max_bytes)));
  }
  return read_file_start("/proc/self/fd/" + std::to_string(file.get()), max_bytes);
}

JobOutput::JobOutput(fs::path path, std::string job_id)
    : path_(std::move(path)), job_id_(std::move(job_id)) {}

bool JobOutput::is_committed(int attempt) const {
  const PinnedDirectory output(path_);
  if (!output) return false;
  const std::optional<OutputOwner> owner = owner_of_output(output.path());
  return owner && owner->job_id == job_id_ && owner->attempt == attempt;
}

int64_t JobOutput::unfinished_bytes() const {
  const PinnedDirectory partial(partial_path(path_));
  return partial ? size_of_directory(partial.path()) : 0;
}

template <class Body>
void JobOutput::with_partial(Body&& body) const {
  const PinnedDirectory parent(path_.parent_path());
  if (!parent) return;
  const fs::path partial = partial_path(parent.path() / path_.filename());
  const UniqueFd held = try_lock_directory(partial);
  if (!held) return;
  const std::optional<OutputOwner> owner = owner_of_partial(partial);
  if (owner ? owner->job_id == job_id_ : is_empty_partial(partial)) body(partial);
}

void JobOutput::trim() const {
  try {
    with_partial([](const fs::path& partial) {
      if (const std::error_code error = trim_unfinished(partial)) throw std::system_error(error);
    });
  } catch (const std::system_error& error) {
    spdlog::error("cannot remove the partial output of {}: {}", path_.string(), error.what());
  }
}

TrashedDirectory JobOutput::discard(Trash& trash) const {
  TrashedDirectory moved;
  try {
    with_partial(
        [&](const fs::path& partial) { moved = trash.take_beside(partial, partial_path(path_)); });
  } catch (const std::system_error& error) {
    spdlog::error("cannot remove the partial output of {}: {}", path_.string(), error.what());
  }
  return moved;
}

}  // namespace dotresize
