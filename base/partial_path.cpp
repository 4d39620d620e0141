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

/// Whether a job could go on from it.
bool has_entries(const fs::path& journal) {
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(journal, error)) {
    const fs::path name = file.path().filename();
    if (name.extension() == ".json" && name != kJournalOfJob) return true;
  }
  return false;
}

}  // namespace

fs::path partial_path(const fs::path& output) { return with_suffix(output, kPartial); }

fs::path replaced_path(const fs::path& output) { return with_suffix(output, kReplaced); }

std::error_code empty_directory(const fs::path& dir, const fs::path& kept) {
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(dir, error)) {
    std::error_code one;
    if (file.path() != kept) fs::remove_all(file.path(), one);
    if (one) error = one;
  }
  return error;
}

std::error_code trim_unfinished(const fs::path& partial) {
  const fs::path journal = partial / kJournalDirectory;
  if (has_entries(journal)) return empty_directory(partial, journal);
  std::error_code error;
  fs::remove_all(partial, error);
  return error;
}

int64_t size_of_directory(const fs::path& dir) {
  int64_t bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(dir, error)) {
    std::error_code one;
    const auto size = file.is_regular_file(one) ? file.file_size(one) : 0;
    if (!one) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

bool is_unfinished_output(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(kPartial) || name.ends_with(kReplaced);
}

}  // namespace dotresize
