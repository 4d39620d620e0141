#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/files/directory.h"
#include "base/files/unique_fd.h"
#include "base/process/environment.h"

namespace dotresize {

/// Minimum of free shared memory for two ranks: OpenMPI gives each rank a segment of 4 MiB and some
/// small ones.
inline constexpr int64_t kLeastSharedMemory = int64_t{16} << 20;
/// Remedy for less.
inline constexpr char kSharedMemoryAdvice[] =
    "ranks exchange messages there: remove the files of killed jobs, or make it larger (docker run "
    "--shm-size=1g, an emptyDir with medium Memory in Kubernetes, mount -o remount,size=1g)";

/// Throws ProgramMissing, with the remedy, if mpirun cannot start this many ranks on this machine:
/// without enough open files it hangs, and without shared memory the ranks end with a page of MPI's
/// text. Raises the soft limit of open files as far as mpirun needs. One rank needs no mpirun.
void require_rank_start(int ranks, const std::filesystem::path& shared_memory = kSharedMemory);

/// A new directory in shared memory for the ranks that this process starts with mpirun, since
/// killed ranks leave their segments behind. The destructor removes it. So does the next
/// SharedMemoryFolder of this user, if this process could not: the directory is locked until
/// this process and its mpirun have ended.
class SharedMemoryFolder {
 public:
  /// Makes none for a single rank, and none if there is no shared memory to write to.
  explicit SharedMemoryFolder(int ranks, const std::filesystem::path& parent = kSharedMemory);
  ~SharedMemoryFolder();
  SharedMemoryFolder(const SharedMemoryFolder&) = delete;
  SharedMemoryFolder& operator=(const SharedMemoryFolder&) = delete;

  /// Empty if there is none; for launch_command().
  const std::filesystem::path& path() const { return path_; }

 private:
  /// Makes and locks a folder. Returns false if none can be made.
  bool make(const std::filesystem::path& parent);

  PinnedDirectory parent_;
  PinnedDirectory folder_;  ///< locked; children inherit its descriptor
  std::filesystem::path path_;
};

}  // namespace dotresize
