#include "server/store/trash.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/files/directory.h"
#include "base/files/file_changes.h"
#include "base/process/environment.h"
#include "base/text/encodings.h"

namespace dotresize {
namespace fs = std::filesystem;

namespace {

constexpr char kDeleted[] = ".deleted-";

}  // namespace

TrashedDirectory& TrashedDirectory::operator=(TrashedDirectory&& other) noexcept {
  std::swap(trash_, other.trash_);
  from_.swap(other.from_);
  to_.swap(other.to_);
  note_.swap(other.note_);
  return *this;
}

TrashedDirectory::~TrashedDirectory() {
  if (trash_ == nullptr) return;
  std::error_code error;
  files::rename(to_, from_, error);
  if (error) {
    spdlog::error("cannot move {} back to {}: {}", to_.string(), from_.string(), error.message());
  } else if (!note_.empty()) {
    files::remove(note_, error);
  }
  const Lock lock(trash_->mutex_);
  trash_->held_.erase(note_.empty() ? to_ : note_);
}

void TrashedDirectory::remove() {
  if (trash_ == nullptr) return;
  Trash& trash = *std::exchange(trash_, nullptr);
  {
    const Lock lock(trash.mutex_);
    trash.held_.erase(note_.empty() ? to_ : note_);
    trash.filled_ = true;
  }
  trash.changed_.notify_one();
}

Trash::Trash(fs::path folder) : folder_(std::move(folder)) {
  files::create_directories(folder_);
  thread_ = std::jthread([this](const std::stop_token& stop) {
    Lock lock(mutex_);
    while (changed_.wait(lock, stop, [this]() DOTRESIZE_REQUIRES(mutex_) {
      return std::exchange(filled_, false);
    }) && !stop.stop_requested()) {
      lock.unlock();
      sweep(stop);
      lock.lock();
    }
  });
}

fs::path Trash::hold_new_entry() {
  fs::path entry = folder_ / hex_digits(random_bytes(8));
  const Lock lock(mutex_);
  held_.insert(entry);
  return entry;
}

TrashedDirectory Trash::take(const fs::path& dir) {
  TrashedDirectory moved;
  if (!fs::exists(fs::symlink_status(dir))) return moved;
  const fs::path to = hold_new_entry();
  files::rename(dir, to);
  moved.trash_ = this;
  moved.from_ = dir;
  moved.to_ = to;
  return moved;
}

TrashedDirectory Trash::take_beside(const fs::path& dir, const fs::path& canonical) {
  TrashedDirectory moved;
  const fs::path note = hold_new_entry();
  const std::string name =
      "." + canonical.filename().string() + kDeleted + note.filename().string();
  files::create_symlink(canonical.parent_path() / name, note);  // first, so that a crash keeps it
  files::rename(dir, dir.parent_path() / name);
  moved.trash_ = this;
  moved.from_ = canonical;
  moved.to_ = canonical.parent_path() / name;
  moved.note_ = note;
  return moved;
}

void Trash::sweep(const std::stop_token& stop) {
  std::error_code unreadable;
  for (const fs::directory_entry& entry : entries_of(folder_, unreadable)) {
    const fs::path& path = entry.path();
    if (stop.stop_requested()) return;
    {
      const Lock lock(mutex_);
      if (held_.contains(path)) continue;
    }
    std::error_code error;
    if (fs::is_symlink(fs::symlink_status(path, error))) {
      const fs::path target = fs::read_symlink(path, error);
      const PinnedDirectory parent(target.parent_path());
      // Removes only names that the trash gives: a note could lead to any path of this user.
      if (parent && target.filename().string().find(kDeleted) != std::string::npos) {
        files::remove_all(parent.path() / target.filename(), error);
      }
    }
    if (!error) files::remove_all(path, error);
    if (error) spdlog::error("cannot remove {}: {}", path.string(), error.message());
  }
  if (unreadable) spdlog::error("cannot read {}: {}", folder_.string(), unreadable.message());
}

}  // namespace dotresize
