#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/files/input_file.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// The source's config.json and weights, each with its stamp when the job opened it.
using InputStamps = std::map<std::filesystem::path, FileStamp>;

/// Key of the stamps, by file name, beside a fingerprint (fingerprints.h). Size and modification
/// time in the fingerprint are no proof, because both can be set.
inline constexpr char kInputStamps[] = "input_stamps";
nlohmann::json stamps_to_json(const InputStamps& inputs);

std::vector<std::filesystem::path> files_of(const InputStamps& inputs);

/// Keeps the hash of an input in `dir`, unless the file has changed since the job opened it.
void keep_input_hash(const std::filesystem::path& dir, const std::filesystem::path& input,
                     const FileStamp& opened, const std::string& sha256);

/// Returns the first input that is not known to be the one of an earlier run: it has neither the
/// stamp in `kept`, the content of a JSON file that the run has begun in `dir`, nor the hash that
/// keep_input_hash() put there. Reads files of other stamps.
std::optional<std::filesystem::path> changed_input(const InputStamps& inputs,
                                                   const nlohmann::json& kept,
                                                   const std::filesystem::path& dir);

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
