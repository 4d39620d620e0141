#include "job/spec/remote_url.h"

#include <algorithm>
#include <vector>

#include "base/text/printable.h"

namespace dotresize {
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
