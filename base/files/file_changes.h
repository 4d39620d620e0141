#pragma once

#include <sys/types.h>

#include <filesystem>
#include <system_error>

#include "base/files/confinement.h"

/// Changes of the file system. Each opens the directory of its path as Confinement::open() does,
/// beneath the allowed roots and without links below an open descriptor, and changes the entry
/// through that directory. An entry that is a link is never followed. Code elsewhere calls neither
/// the functions of std::filesystem with these names nor the system calls (scripts/lint.sh).
///
/// Without `error`, a failure throws std::system_error naming the path. A path out of the roots is
/// permission_denied.
namespace dotresize::files {

using Path = std::filesystem::path;

/// Returns false if the directory exists. `permissions` are those of a new one, less the umask.
bool create_directory(const Path& path, mode_t permissions = 0777);

/// Creates the directory and its missing parents. Returns false if it exists. The overload without
/// `error` throws InputError for a path out of the roots.
bool create_directories(const Path& path,
                        const Confinement& confinement = Confinement::of_process());
bool create_directories(const Path& path, std::error_code& error);

/// Removes a file, a link or an empty directory. Returns false if there is none.
bool remove(const Path& path);
bool remove(const Path& path, std::error_code& error);

/// Removes a file, or a directory with its content. A missing one is no error.
void remove_all(const Path& path);
void remove_all(const Path& path, std::error_code& error);

/// Replaces a file or an empty directory at `to`.
void rename(const Path& from, const Path& to,
            const Confinement& confinement = Confinement::of_process());
void rename(const Path& from, const Path& to, std::error_code& error);

/// Renames unless `to` exists; then `error` is file_exists.
void rename_to_free_name(const Path& from, const Path& to, std::error_code& error);

/// Swaps two entries in one step. `error` is invalid_argument or function_not_supported on a file
/// system that cannot.
void exchange(const Path& a, const Path& b, std::error_code& error);

void create_symlink(const Path& target, const Path& link);

/// Copies a regular file. Replaces a file at `to`.
void copy_file(const Path& from, const Path& to);
void copy_file(const Path& from, const Path& to, std::error_code& error);

/// Sets the time of the last change to now.
void touch(const Path& path, std::error_code& error);

}  // namespace dotresize::files
