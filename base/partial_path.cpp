#include "base/partial_path.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kPartial[] = ".partial";
constexpr char kReplaced[] = ".replaced";

fs::path with_suffix(const fs::path& path, const char* suffix) {
  fs::path name = path.has_filename() ? path : path.parent_path();
  name += suffix;
  return name;
}

}  // namespace

fs::path partial_path(const fs::path& output) { return with_suffix(output, kPartial); }

fs::path replaced_path(const fs::path& output) { return with_suffix(output, kReplaced); }

bool is_unfinished_output(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(kPartial) || name.ends_with(kReplaced);
}

}  // namespace dotresize
