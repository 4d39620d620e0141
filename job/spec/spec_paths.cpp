#include "job/spec/spec_paths.h"

#include <algorithm>

#include "base/errors.h"
#include "base/process/environment.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "job/spec/yaml_file.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kHub = "hf://";
constexpr std::string_view kS3 = "s3://";
constexpr std::string_view kDatasets = "datasets/";
constexpr size_t kLongestPart = 200;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

/// Returns true for a non-empty name that begins with a letter or digit: no "..", no hidden file.
bool is_part(std::string_view part, std::string_view others) {
  if (part.empty() || part.size() > kLongestPart) return false;
  return is_plain_word(part.substr(0, 1), "") && is_plain_word(part, others);
}

bool is_hub_url(std::string_view url, bool file) {
  url.remove_prefix(kHub.size());
  const bool dataset = url.starts_with(kDatasets);
  if (dataset) url.remove_prefix(kDatasets.size());
  std::vector<std::string_view> parts = split(url, '/');
  if (parts.size() < 2 || (parts.size() > 2) != file || (dataset && !file)) return false;
  const std::vector<std::string_view> name = split(parts[1], '@');
  if (name.size() > 2) return false;
  if (name.size() == 2 && !is_part(name[1], "._-")) return false;
  parts[1] = name[0];
  return std::ranges::all_of(parts, [](std::string_view part) { return is_part(part, "._-"); });
}

}  // namespace

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

bool is_on_hub(std::string_view path) { return path.starts_with(kHub); }

bool is_remote(std::string_view path) { return is_on_hub(path) || path.starts_with(kS3); }

std::string remote_fault(const std::string& key, const std::string& url) {
  const bool may_be_remote = key == "model.path" || key == "output.path" ||
                             key.ends_with(".text") || key.ends_with(".tokens");
  if (!may_be_remote) return in_quotes(url) + " must be a directory of this machine";
  const bool file = !key.ends_with(".path");
  if (is_on_hub(url)) {
    if (is_hub_url(url, file)) return "";
    return in_quotes(url) + " is not " +
           (file ? "hf://OWNER/NAME/FILE or hf://datasets/OWNER/NAME/FILE" : "hf://OWNER/NAME") +
           ", and @REVISION may follow NAME";
  }
  const std::vector<std::string_view> parts = split(std::string_view(url).substr(kS3.size()), '/');
  const bool valid = parts.size() >= 2 && std::ranges::all_of(parts, [](std::string_view part) {
                       return is_part(part, "._=+-");
                     });
  return valid ? "" : in_quotes(url) + " is not s3://BUCKET/KEY";
}

std::string without_revision(const std::string& url) {
  if (!is_on_hub(url)) return url;
  const size_t at = url.find('@');
  if (at == std::string::npos) return url;
  const size_t slash = url.find('/', at);
  return url.substr(0, at) + (slash == std::string::npos ? "" : url.substr(slash));
}

std::string at_revision(const std::string& url, const std::string& revision) {
  const std::string place = without_revision(url);
  if (!is_on_hub(place)) return place + "@" + revision;
  // hf://[datasets/]OWNER/NAME
  const bool dataset = std::string_view(place).substr(kHub.size()).starts_with(kDatasets);
  const size_t owner = kHub.size() + (dataset ? kDatasets.size() : 0);
  const size_t name = place.find('/', owner) + 1;
  const size_t end = std::min(place.find('/', name), place.size());
  return place.substr(0, end) + "@" + revision + place.substr(end);
}

bool is_url_below(const std::string& url, const std::string& prefix) {
  const std::string place = without_revision(url);
  if (!place.starts_with(prefix)) return false;
  return prefix.ends_with('/') || place.size() == prefix.size() || place[prefix.size()] == '/';
}

}  // namespace dotresize
