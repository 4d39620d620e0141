#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "worker/comm/communicator.h"

namespace dotresize {

/// Hashes of files that are dealt out to the ranks. A thread takes them, so that a rank which works
/// on a GPU or waits for a disk does not wait for them too.
class BackgroundHashes {
 public:
  using Hashes = std::map<std::string, std::string>;  ///< SHA-256 by file name

  /// `files`: whole, and the same list on all ranks. `keep`, if there is one, gets each file's name
  /// and hash on the thread.
  BackgroundHashes(const Communicator& comm, const std::vector<std::filesystem::path>& files,
                   std::function<void(const std::string&, const std::string&)> keep = {});
  // The destructor stops the thread.

  /// Those of all files on rank 0, once they are there; elsewhere none. Collective. Throws what the
  /// thread threw.
  Hashes gather(Communicator& comm);

 private:
  std::future<Hashes> mine_;
  std::jthread thread_;
};

}  // namespace dotresize
