#pragma once

#include <google/protobuf/message.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <string>
#include <vector>

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

/// Returns the line of a key, or of its nearest parent that is given.
int line_of(const KeyLines& lines, const std::string& key);

/// Fills a protobuf message from YAML by the message's descriptor. Keys are field names, enum
/// values their names, and null means absent. All faults are collected. Fields may be string, bool,
/// double, uint32, enum, message and repeated string.
class YamlMessageReader {
 public:
  /// `root` must be the file's top node.
  void read(const YAML::Node& root, google::protobuf::Message& message);

  const std::vector<Fault>& faults() const { return faults_; }
  const KeyLines& lines() const { return lines_; }

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

  std::vector<Fault> faults_;
  KeyLines lines_;
};

}  // namespace dotresize
