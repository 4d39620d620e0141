#include "server/schedule/job_output.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <utility>

#include "base/errors.h"
#include "base/files/confinement.h"
#include "base/files/partial_path.h"
#include "base/text/human_text.h"
#include "job/spec/remote_url.h"
#include "server/store/files.h"

namespace dotresize {
namespace fs = std::filesystem;

std::optional<std::string> read_pinned_file(const fs::path& path, size_t max_bytes) {
  const PinnedDirectory directory(path.parent_path());
  if (!directory) return std::nullopt;
  const UniqueFd file = open_beneath(directory.descriptor(), path.filename(), O_PATH);
  struct stat status = {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  if (static_cast<size_t>(status.st_size) > max_bytes) {
    throw InputError(path.string() + ": is larger than " +
                     human_bytes(static_cast<int64_t>(max_bytes)));
  }
  return read_file_start(path_of_descriptor(file.get()), max_bytes);
}

JobOutput::JobOutput(fs::path path, std::string job_id)
    : path_(std::move(path)), job_id_(std::move(job_id)) {}

bool JobOutput::is_committed(int attempt) const {
  const PinnedDirectory output(path_);
  if (!output) return false;
  const std::optional<OutputOwner> owner = owner_of_output(output.path());
  return owner && owner->job_id == job_id_ && owner->attempt == attempt;
}

bool JobOutput::is_committed() const {
  const PinnedDirectory output(path_);
  if (!output) return false;
  const std::optional<OutputOwner> owner = owner_of_output(output.path());
  return owner && owner->job_id == job_id_;
}

int64_t JobOutput::unfinished_bytes() const {
  const PinnedDirectory partial(partial_path(path_));
  return partial ? size_of_directory(partial.path()) : 0;
}

template <class Body>
void JobOutput::with_partial(Body&& body) const {
  const PinnedDirectory parent(path_.parent_path());
  if (!parent) return;
  const fs::path name = partial_path(path_.filename());
  const PinnedDirectory partial(try_lock_directory(parent.path() / name));
  if (!partial || !parent.holds(name, partial)) return;
  const std::optional<OutputOwner> owner = owner_of_partial(partial.path());
  const bool mine = owner ? owner->job_id == job_id_ : is_empty_partial(partial.path());
  if (mine) body(parent, name, partial);
}

void JobOutput::trim() const {
  try {
    with_partial([](const auto& parent, const fs::path& name, const auto& partial) {
      const std::error_code error = trim_unfinished(parent, name, partial);
      if (error) throw std::system_error(error);
    });
  } catch (const std::system_error& error) {
    spdlog::error("cannot remove the partial output of {}: {}", path_.string(), error.what());
  }
}

TrashedDirectory JobOutput::discard_committed(Trash& trash) const {
  try {
    if (is_committed()) return trash.take_beside(path_, path_);
  } catch (const std::system_error& error) {
    spdlog::error("cannot remove the output {}: {}", path_.string(), error.what());
  }
  return {};
}

TrashedDirectory JobOutput::discard(Trash& trash) const {
  TrashedDirectory moved;
  try {
    with_partial([&](const auto& parent, const fs::path& name, const auto&) {
      moved = trash.take_beside(parent.path() / name, partial_path(path_));
    });
  } catch (const std::system_error& error) {
    spdlog::error("cannot remove the partial output of {}: {}", path_.string(), error.what());
  }
  return moved;
}

void DiscardedOutput::remove() {
  unfinished.remove();
  unpushed.remove();
}

DiscardedOutput discard_output(const v1::Job& job, const fs::path& output, Trash& trash) {
  const JobOutput of_job(output, job.id());
  DiscardedOutput moved{of_job.discard(trash), {}};
  if (is_remote(job.spec().output().path())) moved.unpushed = of_job.discard_committed(trash);
  return moved;
}

}  // namespace dotresize
