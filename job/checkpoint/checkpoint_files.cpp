#include "job/checkpoint/checkpoint_files.h"

#include <algorithm>
#include <array>
#include <string>
#include <system_error>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/text/printable.h"
#include "job/checkpoint/shard_index.h"
#include "job/checkpoint/weights_advice.h"

namespace dotresize {
namespace fs = std::filesystem;

bool has_checkpoint_files(const fs::path& dir) {
  std::error_code error;
  return std::ranges::any_of(std::array{kSingleFile, kIndexFile}, [&](const char* name) {
    return fs::exists(fs::symlink_status(dir / name, error));
  });
}

CheckpointFiles find_checkpoint_files(const fs::path& dir, const Confinement& confinement) {
  std::error_code error;
  if (!fs::is_directory(dir, error)) throw InputError(dir.string() + ": no such model directory");
  CheckpointFiles found;
  const auto add = [&](const std::string& file, const std::string& where) {
    if (std::ranges::count(found.names, file) > 0) return;
    if (fs::exists(dir / file, error)) return found.names.push_back(file);
    const bool link = fs::is_symlink(fs::symlink_status(dir / file, error));
    throw InputError(where + (link ? " is a link to a file that is not there; fetch the model again"
                                   : " is missing" + advice_on_missing_shard(dir)));
  };
  const fs::path index_path = dir / kIndexFile;
  if (fs::exists(fs::symlink_status(dir / kSingleFile, error))) {
    add(kSingleFile, (dir / kSingleFile).string());
  } else if (fs::exists(index_path, error)) {
    found.index = parse_shard_index(read_whole_file(index_path, kMaxIndexBytes, confinement),
                                    index_path.string());
    for (const auto& [name, file] : found.index) {
      add(file,
          index_path.string() + ": shard " + in_quotes(file) + " of tensor " + in_quotes(name));
    }
    std::ranges::sort(found.names);
  } else {
    throw InputError(dir.string() + ": neither " + kSingleFile + " nor " + kIndexFile +
                     advice_on_missing_weights(dir));
  }
  return found;
}

}  // namespace dotresize
