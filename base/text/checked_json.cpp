#include "base/text/checked_json.h"

#include <set>
#include <vector>

#include "base/errors.h"
#include "base/files/confinement.h"
#include "base/files/input_file.h"
#include "base/process/work_budget.h"

namespace dotresize {
namespace {

// Memory of one parsed value, and of the copies that its readers make of the whole text.
constexpr size_t kValueBytes = 64;
constexpr size_t kCopies = 3;

}  // namespace

using nlohmann::json;

std::string json_fault(const json::exception& error) {
  const std::string what = error.what();
  const size_t bracket = what.find("] ");
  const size_t begin = bracket == std::string::npos ? 0 : bracket + 2;
  const size_t end = what.find("; last read");
  return what.substr(begin, end == std::string::npos ? end : end - begin);
}

json parse_json_object(const std::string& text, const std::string& origin) {
  constexpr int kMaxDepth = 64;
  // nlohmann::json itself keeps the last of several equal keys.
  std::vector<std::set<std::string>> keys;  // keys of each open object
  WorkBudget::take(kCopies * text.size());
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) {
      throw InputError(origin + ": is nested deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    WorkBudget::check();
    WorkBudget::take(kValueBytes);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) {
        throw InputError(origin + ": the key '" + key + "' is given twice");
      }
    }
    return true;
  };
  json root;
  try {
    root = json::parse(text, check);
  } catch (const json::exception& error) {
    throw InputError(origin + ": is not valid JSON: " + json_fault(error));
  }
  if (!root.is_object()) {
    throw InputError(origin + ": must be a JSON object, not " + root.type_name());
  }
  return root;
}

json read_json_object(const std::filesystem::path& file, uint64_t max_bytes) {
  return parse_json_object(read_whole_file(file, max_bytes), shown_path(file));
}

}  // namespace dotresize
