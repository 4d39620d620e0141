#include "base/files/directory_entries.h"

namespace dotresize {

namespace fs = std::filesystem;

std::vector<fs::directory_entry> entries_of(const fs::path& dir, std::error_code& error) {
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator entry(dir, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    entries.push_back(*entry);
  }
  return entries;
}

}  // namespace dotresize
