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

/// Hashes of files, distributed over the ranks. Each rank computes its part in a thread, so that a
/// rank that works on a GPU or waits for a disk need not wait for the hashes.
class BackgroundHashes {
 public:
  using Hashes = std::map<std::string, std::string>;  ///< SHA-256 by file name

  /// `files`: complete files, the same list on all ranks. `keep`, if set, is called with each
  /// file and its hash on the thread.
  BackgroundHashes(const Communicator& comm, const std::vector<std::filesystem::path>& files,
                   std::function<void(const std::filesystem::path&, const std::string&)> keep = {});
  // The destructor stops the thread.

  /// Waits for all hashes and returns them on rank 0; other ranks get an empty result. Collective.
  /// Rethrows the thread's exception.
  Hashes gather(Communicator& comm);

 private:
  std::future<Hashes> mine_;
  std::jthread thread_;
};

}  // namespace dotresize
