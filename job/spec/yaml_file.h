#pragma once

#include <google/protobuf/message.h>
#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"

namespace dotresize {

/// One fault of a file.
struct Fault {
  int line = 1;     ///< from 1
  std::string key;  ///< "method.sparsity"; empty for the file as a whole
  std::string what;
  std::string place = {};  ///< replaces file and line in messages; empty: it does not
};

/// Lines of a file's keys, from 1.
using KeyLines = std::map<std::string, int>;

/// Returns the value of a key, or of its nearest parent that has one; null if none has.
template <class Value>
const Value* nearest(const std::map<std::string, Value>& by_key, std::string key) {
  while (!key.empty()) {
    if (const auto found = by_key.find(key); found != by_key.end()) return &found->second;
    const std::size_t dot = key.rfind('.');
    key.resize(dot == std::string::npos ? 0 : dot);
  }
  return nullptr;
}

/// Returns the line of a key, or of its nearest parent that is given; else 1.
int line_of(const KeyLines& lines, const std::string& key);

/// Fills a protobuf message from YAML by the message's descriptor. Keys are field names, enum
/// values their names, and null means absent. All faults are collected. Fields may be string, bool,
/// double, uint32, enum, message and repeated string.
class YamlMessageReader {
 public:
  /// `root` must be the file's top node.
  void read(const YAML::Node& root, google::protobuf::Message& message);

  std::vector<Fault> faults;  ///< faults of all that was read
  KeyLines lines;

 private:
  void read_map(const YAML::Node& node, const std::string& prefix,
                google::protobuf::Message& message);
  void read_field(const YAML::Node& node, const std::string& key,
                  const google::protobuf::FieldDescriptor& field,
                  google::protobuf::Message& message);
  void read_strings(const YAML::Node& node, const std::string& key,
                    const google::protobuf::FieldDescriptor& field,
                    google::protobuf::Message& message);
  void read_scalar(const YAML::Node& node, const std::string& key,
                   const google::protobuf::FieldDescriptor& field,
                   google::protobuf::Message& message);
  void add_fault(const YAML::Node& node, const std::string& key, const std::string& what);
};

/// Error with all faults of a file.
class FileFaults : public InputError {
 public:
  FileFaults(const std::string& message, std::vector<Fault> all)
      : InputError(message), faults(std::move(all)) {}

  const std::vector<Fault> faults;
};

/// Throws FileFaults with one line per fault, "ORIGIN:LINE: KEY: WHAT" or "PLACE: KEY: WHAT",
/// sorted by line. `faults` must not be empty.
[[noreturn]] void throw_faults(const std::string& origin, std::vector<Fault> faults);

/// Returns `node` as the value of "section.key", wrapped in maps.
YAML::Node nested(const std::string& key, const YAML::Node& node);

bool is_utf8(const std::string& text);

/// Parses an untrusted YAML text with one map. Throws InputError if it is not UTF-8, not YAML or
/// not exactly one document.
YAML::Node load_yaml(const std::string& text, const std::string& origin);

/// Fills `message` from an untrusted YAML text with one map. Throws InputError like load_yaml, and
/// for each fault that `reader` finds.
void read_yaml_text(const std::string& text, const std::string& origin, YamlMessageReader& reader,
                    google::protobuf::Message& message);

}  // namespace dotresize
