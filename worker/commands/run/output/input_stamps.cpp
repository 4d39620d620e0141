#include "worker/commands/run/output/input_stamps.h"

#include <nlohmann/json.hpp>

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

}  // namespace dotresize
