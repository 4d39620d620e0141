#include "job/remote/localized_job.h"

#include <sys/file.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "job/spec/spec_paths.h"

namespace dotresize {
namespace {

constexpr char kModelKey[] = "model.path";
constexpr char kOutputKey[] = "output.path";

/// Returns the paths of each key, in their order.
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
      spec.mutable_output()->set_destination(*path.value);
      *path.value = cache.output_for(*path.value).string();
    } else if (const auto copy = copies.find(*path.value); copy != copies.end()) {
      if (path.key == kModelKey) {
        spec.mutable_model()->set_origin(at_revision(copy->first, copy->second.revision));
      }
      *path.value = copy->second.path.string();
    }
  }
}

std::vector<std::string> changes_between(const v1::JobSpec& given, const v1::JobSpec& localized) {
  // JSON is valid YAML.
  std::vector<std::string> changes;
  const auto change = [&](const std::string& key, const nlohmann::json& value) {
    changes.push_back(key + "=" + value.dump());
  };
  const auto before = paths_by_key(given);
  for (const auto& [key, values] : paths_by_key(localized)) {
    if (before.at(key) == values) continue;
    key.ends_with(".text") ? change(key, values) : change(key, values.front());
  }
  const std::string& origin = localized.model().origin();
  if (origin != given.model().origin()) change("model.origin", origin);
  const std::string& destination = localized.output().destination();
  if (destination != given.output().destination()) change("output.destination", destination);
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
                        copy.string() + " is no longer in the cache; try again");
  }
}

}  // namespace dotresize
