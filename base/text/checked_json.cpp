#include "base/text/checked_json.h"

#include <algorithm>
#include <set>
#include <string_view>
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

std::string with_quoted_non_finite(std::string text) {
  constexpr int kMostQuoted = 16;  // each one costs a pass over the text
  for (int quoted = 0; quoted < kMostQuoted; ++quoted) {
    try {
      [[maybe_unused]] const json parsed = json::parse(text);
      return text;
    } catch (const json::parse_error& error) {
      // The last byte that was read: the first one that is no JSON value, after a minus sign.
      size_t begin = error.byte == 0 ? text.size() : error.byte - 1;
      const std::string_view rest = std::string_view(text).substr(std::min(begin, text.size()));
      const std::string_view name = rest.starts_with("NaN")        ? "NaN"
                                    : rest.starts_with("Infinity") ? "Infinity"
                                                                   : "";
      if (name.empty()) return text;
      const size_t end = begin + name.size();
      if (begin > 0 && text[begin - 1] == '-') --begin;
      text.insert(end, 1, '"').insert(begin, 1, '"');
    } catch (const json::exception&) {  // such as a number beyond float64
      return text;
    }
  }
  return text;
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
