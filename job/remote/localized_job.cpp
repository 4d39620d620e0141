#include "job/remote/localized_job.h"

#include <sys/file.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "job/spec/remote_url.h"
#include "job/spec/spec_paths.h"

namespace dotresize {
namespace {

constexpr char kModelKey[] = "model.path";
constexpr char kOutputKey[] = "output.path";

/// The paths of each key, in their order.
std::map<std::string, std::vector<std::string>> paths_by_key(v1::JobSpec spec) {
  std::map<std::string, std::vector<std::string>> paths;
  for (const SpecPath& path : paths_of(spec)) paths[path.key].push_back(*path.value);
  return paths;
}

}  // namespace

std::vector<RemoteInput> remote_inputs(const v1::JobSpec& spec, bool for_plan) {
  v1::JobSpec copy = spec;
  std::vector<RemoteInput> inputs;
  for (const SpecPath& path : paths_of(copy)) {
    if (!is_remote(*path.value) || path.key == kOutputKey) continue;
    const auto same = [&](const RemoteInput& input) { return input.url == *path.value; };
    if (std::ranges::any_of(inputs, same)) continue;
    const FetchKind model = for_plan ? FetchKind::kConfig : FetchKind::kModel;
    inputs.push_back({path.key, *path.value, path.key == kModelKey ? model : FetchKind::kFile});
  }
  return inputs;
}

void localize(v1::JobSpec& spec, const RemoteCopies& copies, const RemoteCache& cache) {
  for (const SpecPath& path : paths_of(spec)) {
    if (!is_remote(*path.value)) continue;
    if (path.key == kOutputKey) {
      *path.value = cache.output_for(*path.value).string();
    } else if (const auto copy = copies.find(*path.value); copy != copies.end()) {
      *path.value = copy->second.path.string();
    }
  }
}

std::vector<ShownPath> shown_paths(const RemoteCopies& copies, const v1::JobSpec& given,
                                   const RemoteCache& cache) {
  const std::string& output = given.output().path();
  std::vector<ShownPath> names = {{cache.output_for(output), output}};
  for (const auto& [url, copy] : copies) {
    const bool model = url == given.model().path();
    names.push_back({copy.path, model ? without_revision(url) + "@" + copy.revision : url});
  }
  return names;
}

std::vector<std::string> changes_between(const v1::JobSpec& given, const v1::JobSpec& localized) {
  const auto before = paths_by_key(given);
  std::vector<std::string> changes;
  for (const auto& [key, values] : paths_by_key(localized)) {
    if (before.at(key) == values) continue;
    // JSON is YAML.
    const nlohmann::json value =
        key.ends_with(".text") ? nlohmann::json(values) : nlohmann::json(values.front());
    changes.push_back(key + "=" + value.dump());
  }
  return changes;
}

HeldCopy::HeldCopy(const std::filesystem::path& copy) {
  const std::filesystem::path entry = copy.parent_path();
  std::error_code error;
  const PinnedDirectory entries(std::filesystem::canonical(entry.parent_path(), error));
  if (entries) entry_ = entries.enter(entry.filename());
  if (!entry_ || ::flock(entry_.descriptor(), LOCK_SH) != 0 ||
      !std::filesystem::exists(copy, error)) {
    throw TransferError(TransferError::kNetwork,
                        copy.string() + " has left the cache already; try again");
  }
}

}  // namespace dotresize
