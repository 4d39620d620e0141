#include "base/files/sha256_sums.h"

#include <filesystem>
#include <sstream>

#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr size_t kHexDigits = 64;
constexpr char kSeparator[] = "  ";  ///< separator between hash and path

}  // namespace

bool stays_inside(const std::string& text) {
  const std::filesystem::path path = text;
  return !text.empty() && path.is_relative() && path.lexically_normal().string() == text &&
         *path.begin() != "." && *path.begin() != "..";
}

std::map<std::string, std::string> parse_sha256_sums(const std::string& text,
                                                     std::vector<std::string>& problems) {
  std::map<std::string, std::string> sums;
  std::istringstream lines(text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = std::string(kSumsFile) + ":" + std::to_string(++number) + ": ";
    if (line.find_first_not_of("0123456789abcdef") != kHexDigits ||
        line.compare(kHexDigits, 2, kSeparator) != 0) {
      problems.push_back(where + "not a SHA-256, two spaces and a path");
      continue;
    }
    const std::string path = line.substr(kHexDigits + 2);
    if (!stays_inside(path)) {
      problems.push_back(where + "path " + in_quotes(path) + " does not stay in the directory");
    } else if (!sums.emplace(path, line.substr(0, kHexDigits)).second) {
      problems.push_back(where + "path " + in_quotes(path) + " is there twice");
    }
  }
  return sums;
}

std::string sha256_line(const std::string& sha256, const std::string& path) {
  return sha256 + kSeparator + path + "\n";
}

}  // namespace dotresize
