#include "worker/commands/run/output/file_hashes.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/durable_file.h"
#include "base/text/sha256.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr char kHash[] = ".sha256";
constexpr size_t kMaxHashBytes = 64;

Json stamp_to_json(const FileStamp& stamp) {
  return {stamp.inode, stamp.bytes, stamp.modified_ns, stamp.changed_ns};
}

fs::path hash_file(const fs::path& dir, const fs::path& input) {
  return dir / (input.filename().string() + kHash);
}

}  // namespace

Json stamps_to_json(const InputStamps& inputs) {
  Json stamps = Json::object();
  for (const auto& [file, stamp] : inputs) stamps[file.filename().string()] = stamp_to_json(stamp);
  return stamps;
}

std::vector<fs::path> files_of(const InputStamps& inputs) {
  std::vector<fs::path> files;
  for (const auto& entry : inputs) files.push_back(entry.first);
  return files;
}

void keep_input_hash(const fs::path& dir, const fs::path& input, const FileStamp& opened,
                     const std::string& sha256) {
  if (InputFile(input.string()).stamp() != opened) return;
  write_file_atomically(hash_file(dir, input), sha256);
}

std::optional<fs::path> changed_input(const InputStamps& inputs, const Json& kept,
                                      const fs::path& dir) {
  if (!kept.contains(kInputStamps)) return std::nullopt;  // an earlier version kept none
  const Json& stamps = kept.at(kInputStamps);
  for (const auto& [input, stamp] : inputs) {
    if (stamps.value(input.filename().string(), Json()) == stamp_to_json(stamp)) continue;
    const fs::path hash = hash_file(dir, input);
    if (fs::exists(hash) && read_whole_file(hash, kMaxHashBytes) == sha256_of_file(input)) continue;
    return input;
  }
  return std::nullopt;
}

BackgroundHashes::BackgroundHashes(
    const Communicator& comm, const std::vector<std::filesystem::path>& files,
    std::function<void(const std::filesystem::path&, const std::string&)> keep) {
  std::vector<std::filesystem::path> mine;
  for (auto i = static_cast<size_t>(comm.rank()); i < files.size();
       i += static_cast<size_t>(comm.size())) {
    mine.push_back(files[i]);
  }
  std::packaged_task<Hashes(std::stop_token)> task(
      [mine = std::move(mine), keep = std::move(keep)](const std::stop_token& stop) {
        Hashes hashes;
        for (const auto& file : mine) {
          const std::string name = file.filename().string();
          hashes[name] = sha256_of_file(file, stop);
          if (keep) keep(file, hashes[name]);
        }
        return hashes;
      });
  mine_ = task.get_future();
  thread_ = std::jthread(std::move(task));
}

BackgroundHashes::Hashes BackgroundHashes::gather(Communicator& comm) {
  const nlohmann::json mine = mine_.get();
  Hashes all;
  for (const std::string& text : gather_strings(comm, mine.dump(), 0)) {
    all.merge(nlohmann::json::parse(text).get<Hashes>());
  }
  return all;
}

}  // namespace dotresize
