#include "job/checkpoint/shard_index.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/text/printable.h"
#include "job/checkpoint/strict_json.h"

namespace dotresize {
namespace {

/// Reads "weight_map" and skips everything else ("metadata").
class IndexHandler final : public StrictJsonHandler {
 public:
  using StrictJsonHandler::StrictJsonHandler;

  std::map<std::string, std::string> files;  ///< by tensor; complete once the text is parsed

  bool string(string_t& value) override {
    if (passes_over() || depth_ == 1) return StrictJsonHandler::string(value);
    if (value.empty() || value == "." || value == ".." ||
        value.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
      refuse("file " + in_quotes(value) + " is not a plain file name within the directory");
    }
    files.emplace(tensor_, std::move(value));
    return true;
  }

  bool start_object(size_t elements) override {
    if (!passes_over() && depth_ > 1) return StrictJsonHandler::start_object(elements);
    ++depth_;
    return true;
  }

  bool end_object() override {
    --depth_;
    return true;
  }

  bool start_array(size_t elements) override {
    if (!passes_over()) return StrictJsonHandler::start_array(elements);
    ++depth_;
    return true;
  }

  bool end_array() override {
    --depth_;
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) {
      section_ = value;
      tensor_.clear();
      if (section_ == "weight_map" && std::exchange(has_map_, true)) {
        refuse("the key appears twice");
      }
    } else if (!passes_over()) {
      tensor_ = value;
      if (files.contains(tensor_)) refuse("the name appears twice");
    }
    return true;
  }

 private:
  bool passes_over() const override { return section_ != "weight_map"; }

  std::string where() const override {
    return !passes_over() && depth_ > 1 ? "weight_map, tensor " + in_quotes(tensor_) : "weight_map";
  }

  uint64_t depth_ = 0;  ///< nesting of objects and arrays; 1 directly inside the document's braces
  bool has_map_ = false;
  std::string section_;  ///< last key at depth 1
  std::string tensor_;
};

}  // namespace

std::map<std::string, std::string> parse_shard_index(const std::string& text,
                                                     const std::string& origin) {
  IndexHandler handler(origin);
  parse_strict_json(text.data(), text.size(), origin, handler);
  if (handler.files.empty()) {
    throw InputError(origin +
                     ": weight_map: no tensors; an index has a \"weight_map\" of tensor names to "
                     "file names");
  }
  return std::move(handler.files);
}

}  // namespace dotresize
