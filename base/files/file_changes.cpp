#include "base/files/file_changes.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "base/errors.h"
#include "base/files/directory.h"

namespace dotresize::files {
namespace fs = std::filesystem;
namespace {

/// An entry of an open directory; it may be missing.
struct Entry {
  PinnedDirectory parent;
  Path name;

  int descriptor() const { return parent.descriptor(); }
  Path path() const { return parent.path() / name; }
};

/// On failure, sets `error` and holds no directory.
Entry entry_of(const Path& path, std::error_code& error,
               const Confinement& confinement = Confinement::of_process()) {
  const Path named = path.has_filename() ? path : path.parent_path();
  const Path parent = named.has_parent_path() ? named.parent_path() : Path(".");
  Entry entry{{}, named.filename()};
  error.clear();
  if (entry.name == "." || entry.name == "..") {
    error = std::make_error_code(std::errc::invalid_argument);
    return entry;
  }
  try {
    entry.parent = PinnedDirectory(confinement.open(parent, O_PATH | O_DIRECTORY));
    if (!entry.parent) error = {errno, std::generic_category()};
  } catch (const InputError&) {
    error = std::make_error_code(std::errc::permission_denied);
  }
  return entry;
}

std::error_code result_of(int status) {
  return status == 0 ? std::error_code() : std::error_code(errno, std::generic_category());
}

[[noreturn]] void fail(const std::string& what, const Path& path, const std::error_code& error) {
  throw std::system_error(error, shown_path(path) + ": " + what);
}

void rename_entry(const Path& from, const Path& to, unsigned flags, std::error_code& error,
                  const Confinement& confinement = Confinement::of_process()) {
  const Entry source = entry_of(from, error, confinement);
  if (error) return;
  const Entry target = entry_of(to, error, confinement);
  if (error) return;
  error = result_of(::renameat2(source.descriptor(), source.name.c_str(), target.descriptor(),
                                target.name.c_str(), flags));
}

}  // namespace

bool create_directory(const Path& path, mode_t permissions) {
  constexpr char kWhat[] = "cannot create the directory";
  std::error_code error;
  const Entry entry = entry_of(path, error);
  if (error) fail(kWhat, path, error);
  error = result_of(::mkdirat(entry.descriptor(), entry.name.c_str(), permissions));
  if (!error) return true;
  struct stat status {};
  const bool exists =
      error == std::errc::file_exists &&
      ::fstatat(entry.descriptor(), entry.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (exists && S_ISLNK(status.st_mode)) {
    fail(kWhat, path, std::make_error_code(std::errc::too_many_symbolic_link_levels));
  }
  if (!exists || !S_ISDIR(status.st_mode)) fail(kWhat, path, error);
  return false;
}

bool create_directories(const Path& path, const Confinement& confinement) {
  std::error_code missing;
  const bool exists = fs::is_directory(path, missing);
  if (!confinement.make_directories(path)) {
    fail("cannot create the directory", path, {errno, std::generic_category()});
  }
  return !exists;
}

bool create_directories(const Path& path, std::error_code& error) {
  error.clear();
  try {
    return files::create_directories(path);
  } catch (const std::system_error& failure) {
    error = failure.code();
  } catch (const InputError&) {
    error = std::make_error_code(std::errc::permission_denied);
  }
  return false;
}

bool remove(const Path& path, std::error_code& error) {
  const Entry entry = entry_of(path, error);
  const bool removed = !error && fs::remove(entry.path(), error);
  if (error == std::errc::no_such_file_or_directory) error.clear();
  return removed;
}

bool remove(const Path& path) {
  std::error_code error;
  const bool removed = files::remove(path, error);
  if (error) fail("cannot remove", path, error);
  return removed;
}

void remove_all(const Path& path, std::error_code& error) {
  const Entry entry = entry_of(path, error);
  if (!error) fs::remove_all(entry.path(), error);
  if (error == std::errc::no_such_file_or_directory) error.clear();
}

void remove_all(const Path& path) {
  std::error_code error;
  files::remove_all(path, error);
  if (error) fail("cannot remove", path, error);
}

void rename(const Path& from, const Path& to, std::error_code& error) {
  rename_entry(from, to, 0, error);
}

void rename(const Path& from, const Path& to, const Confinement& confinement) {
  std::error_code error;
  rename_entry(from, to, 0, error, confinement);
  if (error) fail("cannot rename to " + shown_path(to), from, error);
}

void rename_to_free_name(const Path& from, const Path& to, std::error_code& error) {
  rename_entry(from, to, RENAME_NOREPLACE, error);
  if (error != std::errc::invalid_argument && error != std::errc::function_not_supported) return;
  const Entry target = entry_of(to, error);  // this file system cannot do both in one step
  if (error) return;
  struct stat status {};
  if (::fstatat(target.descriptor(), target.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    error = std::make_error_code(std::errc::file_exists);
  } else {
    rename_entry(from, to, 0, error);
  }
}

void exchange(const Path& a, const Path& b, std::error_code& error) {
  rename_entry(a, b, RENAME_EXCHANGE, error);
}

void create_symlink(const Path& target, const Path& link) {
  std::error_code error;
  const Entry entry = entry_of(link, error);
  if (!error) {
    error = result_of(::symlinkat(target.c_str(), entry.descriptor(), entry.name.c_str()));
  }
  if (error) fail("cannot create the link", link, error);
}

void copy_file(const Path& from, const Path& to, std::error_code& error) {
  const Entry entry = entry_of(to, error);
  if (!error) fs::remove(entry.path(), error);
  if (!error) fs::copy_file(from, entry.path(), error);
}

void copy_file(const Path& from, const Path& to) {
  std::error_code error;
  files::copy_file(from, to, error);
  if (error) fail("cannot copy to " + shown_path(to), from, error);
}

void touch(const Path& path, std::error_code& error) {
  const Entry entry = entry_of(path, error);
  if (error) return;
  constexpr timespec kNow[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
  error = result_of(::utimensat(entry.descriptor(), entry.name.c_str(), kNow, AT_SYMLINK_NOFOLLOW));
}

}  // namespace dotresize::files
