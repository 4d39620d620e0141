#include "server/store/trash.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/files/directory.h"
#include "base/process/environment.h"
#include "base/text/printable.h"

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
  fs::rename(to_, from_, error);
  if (error) {
    spdlog::error("cannot move {} back to {}: {}", to_.string(), from_.string(), error.message());
  } else if (!note_.empty()) {
    fs::remove(note_, error);
  }
  const std::lock_guard lock(trash_->mutex_);
  trash_->held_.erase(note_.empty() ? to_ : note_);
}

void TrashedDirectory::remove() {
  if (trash_ == nullptr) return;
  {
    const std::lock_guard lock(trash_->mutex_);
    trash_->held_.erase(note_.empty() ? to_ : note_);
  }
  std::exchange(trash_, nullptr)->wake();
}

Trash::Trash(fs::path folder) : folder_(std::move(folder)) {
  fs::create_directories(folder_);
  thread_ = std::thread([this] { loop(); });
}

Trash::~Trash() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

fs::path Trash::fresh_name() const { return folder_ / hex_digits(random_bytes(8)); }

TrashedDirectory Trash::take(const fs::path& dir) {
  TrashedDirectory moved;
  if (!fs::exists(fs::symlink_status(dir))) return moved;
  const fs::path to = fresh_name();
  {
    const std::lock_guard lock(mutex_);
    held_.insert(to);
  }
  fs::rename(dir, to);
  moved.trash_ = this;
  moved.from_ = dir;
  moved.to_ = to;
  return moved;
}

TrashedDirectory Trash::take_beside(const fs::path& dir, const fs::path& canonical) {
  TrashedDirectory moved;
  const fs::path note = fresh_name();
  const std::string name =
      "." + canonical.filename().string() + kDeleted + note.filename().string();
  {
    const std::lock_guard lock(mutex_);
    held_.insert(note);
  }
  fs::create_symlink(canonical.parent_path() / name, note);  // first, so that a crash keeps it
  fs::rename(dir, dir.parent_path() / name);
  moved.trash_ = this;
  moved.from_ = canonical;
  moved.to_ = canonical.parent_path() / name;
  moved.note_ = note;
  return moved;
}

void Trash::wake() {
  {
    const std::lock_guard lock(mutex_);
    filled_ = true;
  }
  changed_.notify_one();
}

void Trash::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!std::exchange(filled_, false)) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    sweep();
    lock.lock();
  }
}

void Trash::sweep() {
  std::error_code error;
  for (const fs::directory_entry& entry : entries_of(folder_, error)) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      if (held_.contains(entry.path())) continue;
    }
    remove_entry(entry.path());
  }
  if (error) spdlog::error("cannot read {}: {}", folder_.string(), error.message());
}

void Trash::remove_entry(const fs::path& entry) const {
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(entry, error))) {
    const fs::path target = fs::read_symlink(entry, error);
    const PinnedDirectory parent(target.parent_path());
    // Removes only names that the trash gives: a note could lead to any path of this user.
    if (parent && target.filename().string().find(kDeleted) != std::string::npos) {
      fs::remove_all(parent.path() / target.filename(), error);
    }
  }
  if (!error) fs::remove_all(entry, error);
  if (error) spdlog::error("cannot remove {}: {}", entry.string(), error.message());
}

}  // namespace dotresize
