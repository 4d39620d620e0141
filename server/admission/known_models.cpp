#include "server/admission/known_models.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/files/directory.h"
#include "base/process/work_budget.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostModels = 64;
constexpr size_t kMostFiles = 1000;   // in one model
constexpr size_t kMostDtypes = 1000;  // tensors of another dtype, which a config lists
// Two changes within a tick of the file system's clock may leave the same times.
constexpr std::chrono::seconds kSettled{2};

}  // namespace

KnownModels::DirectoryState KnownModels::state_of(const fs::path& dir) {
  DirectoryState state;
  std::error_code error;  // ignored: read_ refuses such a directory
  for (const fs::directory_entry& entry : entries_of(dir, error)) {
    WorkBudget::check();
    state.push_back({entry.path().filename().string(), stamp_of_file(entry.path())});
  }
  std::ranges::sort(state, {}, &FileState::name);
  return state;
}

bool KnownModels::may_be_kept(const DirectoryState& state, const SourceModel& model,
                              Wall::time_point now) {
  if (state.size() > kMostFiles || model.config.files.dtypes.others.size() > kMostDtypes)
    return false;
  const auto is_below = [](const std::string& name) { return name.find('/') != std::string::npos; };
  if (std::ranges::any_of(model.files.names, is_below)) return false;
  return std::ranges::all_of(state, [&](const FileState& file) {
    if (!file.stamp) return true;
    const std::chrono::nanoseconds last(std::max(file.stamp->modified_ns, file.stamp->changed_ns));
    return last + kSettled <= now.time_since_epoch();
  });
}

ModelConfig KnownModels::config_of(const fs::path& dir, const Confinement& confinement,
                                   Wall::time_point now) {
  DirectoryState state = state_of(dir);
  {
    const Lock lock(mutex_);
    const auto found = known_.find(dir);
    if (found != known_.end() && found->second.state == state) {
      found->second.last_use = ++uses_;
      return found->second.config;
    }
  }
  SourceModel model = read_(dir, confinement);
  if (!may_be_kept(state, model, now) || state_of(dir) != state) return std::move(model.config);
  const Lock lock(mutex_);
  known_[dir] = {std::move(state), model.config, ++uses_};
  if (known_.size() > kMostModels) {
    const auto last_use = [](const auto& entry) { return entry.second.last_use; };
    known_.erase(std::ranges::min_element(known_, {}, last_use));
  }
  return std::move(model.config);
}

}  // namespace dotresize
