#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files/confinement.h"
#include "base/files/input_file.h"
#include "base/process/mutex.h"
#include "job/checkpoint/source_model.h"
#include "job/model/model_config.h"

namespace dotresize {

/// Configs of models that jobs have lately named. Pipelines submit many jobs of one model, and to
/// read the headers of its weights takes as long as all else of an admission. Thread-safe.
class KnownModels {
 public:
  using Wall = std::chrono::system_clock;
  using Read = std::function<SourceModel(const std::filesystem::path&, const Confinement&)>;

  explicit KnownModels(Read read = read_source_model) : read_(std::move(read)) {}

  /// Returns SourceModel.config of the model directory. Reads it unless its files are those of an
  /// earlier time: none has changed since, nor in the last seconds before. Throws InputError.
  ModelConfig config_of(const std::filesystem::path& dir, const Confinement& confinement,
                        Wall::time_point now = Wall::now());

 private:
  /// A file of the directory, and what shows that its content has changed.
  struct FileState {
    std::string name;
    std::optional<FileStamp> stamp;  ///< absent: a link that leads nowhere

    bool operator==(const FileState&) const = default;
  };
  using DirectoryState = std::vector<FileState>;
  struct Known {
    DirectoryState state;
    ModelConfig config;
    uint64_t last_use = 0;
  };

  /// State of the files that links lead to, by name.
  static DirectoryState state_of(const std::filesystem::path& dir);
  static bool may_be_kept(const DirectoryState& state, const SourceModel& model,
                          Wall::time_point now);

  const Read read_;
  Mutex mutex_;
  uint64_t uses_ DOTRESIZE_GUARDED_BY(mutex_) = 0;
  std::map<std::filesystem::path, Known> known_ DOTRESIZE_GUARDED_BY(mutex_);
};

}  // namespace dotresize
