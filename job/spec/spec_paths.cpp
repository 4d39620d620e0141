#include "job/spec/spec_paths.h"

#include <algorithm>

#include "base/errors.h"
#include "base/process/environment.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "job/spec/remote_url.h"
#include "job/spec/yaml_file.h"

namespace dotresize {

namespace fs = std::filesystem;

std::vector<SpecPath> paths_of(v1::JobSpec& spec) {
  std::vector<SpecPath> paths;
  const auto add_tokens = [&](const std::string& section, auto& source) {
    for (std::string& text : *source.mutable_text()) paths.push_back({section + ".text", &text});
    paths.push_back({section + ".tokens", source.mutable_tokens()});
  };
  if (spec.has_model()) paths.push_back({"model.path", spec.mutable_model()->mutable_path()});
  if (spec.has_output()) paths.push_back({"output.path", spec.mutable_output()->mutable_path()});
  if (spec.has_calibration()) add_tokens("calibration", *spec.mutable_calibration());
  if (spec.calibration().has_statistics()) {
    v1::Statistics& statistics = *spec.mutable_calibration()->mutable_statistics();
    paths.push_back({"calibration.statistics.save", statistics.mutable_save()});
    paths.push_back({"calibration.statistics.use", statistics.mutable_use()});
  }
  if (spec.has_evaluation()) add_tokens("evaluation", *spec.mutable_evaluation());
  return paths;
}

fs::path absolute_path(const fs::path& path, const fs::path& base_dir) {
  const fs::path whole = fs::absolute(base_dir.empty() ? fs::path(".") : base_dir) / path;
  fs::path result;
  bool climbs = false;
  for (const fs::path& part : whole) {
    if (part != "." && !part.empty()) result /= part;
    climbs = climbs || part == "..";
  }
  // The file system must resolve "a/..": it is not always ".", because a may be a link.
  return climbs ? fs::weakly_canonical(result) : result;
}

std::string with_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const std::string home = environment_variable("HOME");
  return home.empty() ? path : home + path.substr(1);
}

void make_absolute(v1::JobSpec& spec, const fs::path& base_dir) {
  for (const SpecPath& path : paths_of(spec)) {
    if (path.value->empty() || is_remote(*path.value)) continue;
    std::string absolute = absolute_path(with_home(*path.value), base_dir).string();
    if (!is_utf8(absolute)) {
      throw InputError(path.key, printable(absolute) +
                                     " is not UTF-8: rename the directory, or give a path that is");
    }
    *path.value = std::move(absolute);
  }
}

bool is_within(const fs::path& path, const fs::path& folder) {
  const auto ends = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return ends.first == folder.end();
}

bool has_remote_paths(const v1::JobSpec& spec) {
  v1::JobSpec copy = spec;
  return std::ranges::any_of(paths_of(copy),
                             [](const SpecPath& path) { return is_remote(*path.value); });
}

void require_local_paths(const v1::JobSpec& spec) {
  v1::JobSpec copy = spec;
  for (const SpecPath& path : paths_of(copy)) {
    if (!is_remote(*path.value)) continue;
    throw InputError(path.key, in_quotes(*path.value) +
                                   " is not on this machine: `dotresize run JOB` and `dotresize "
                                   "submit JOB` fetch models and texts, and push models; here "
                                   "give directories and files");
  }
}

}  // namespace dotresize
