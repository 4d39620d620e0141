#pragma once

#include <filesystem>
#include <string>

#include "base/errors.h"
#include "base/files/directory.h"

namespace dotresize {

/// Another process is writing the directory.
class OutputBusy : public InputError {
 public:
  using InputError::InputError;
};

/// `<path>.partial`, which gets the name `path` once it is complete. It and its parent are open
/// from the start, and all operations use their descriptors. So a user who may rename entries
/// beside it cannot redirect them.
class UnfinishedDirectory {
 public:
  enum class Parent { kMake, kExists };

  /// Opens the parent; creates it and its parents for kMake. Every failure names the `key` of the
  /// job. Throws InputError if the parent cannot be opened.
  UnfinishedDirectory(std::filesystem::path path, std::string key, Parent parent);

  /// Creates the directory if it is missing, opens it, and locks it while this object lives. Throws
  /// OutputBusy if another process holds the lock, and InputError if the directory cannot be
  /// created, is a link, or belongs to another user, who could change its files.
  void lock();
  /// Opens the directory on another rank than the one that holds the lock. Throws as lock().
  void enter();

  const PinnedDirectory& parent() const { return parent_; }
  /// Holds none before lock() or enter().
  const PinnedDirectory& directory() const { return directory_; }
  /// Names in parent(): of the complete directory, and of this one.
  const std::filesystem::path& name() const { return name_; }
  const std::filesystem::path& partial_name() const { return partial_name_; }
  /// Path by descriptor (base/files/confinement.h); it leads to this directory.
  std::filesystem::path path() const { return directory_.path(); }
  /// Path by descriptor of the entry `name` in parent().
  std::filesystem::path beside(const std::filesystem::path& name) const;
  /// Throws std::runtime_error unless the entry `name` in parent() is this directory.
  void require_name(const std::filesystem::path& name) const;

 private:
  std::filesystem::path path_;
  std::string key_;
  PinnedDirectory parent_;
  std::filesystem::path name_;
  std::filesystem::path partial_name_;
  PinnedDirectory directory_;
};

/// Error "cannot write <path>: ..." for the errno in `error`.
InputError cannot_write(const std::string& key, const std::filesystem::path& path, int error);

}  // namespace dotresize
