#pragma once

#include <string>
#include <vector>

#include "job/spec/yaml_message.h"

namespace dotresize {

/// Throws InputError: each fault on a line, "ORIGIN:LINE: KEY: WHAT" or "PLACE: KEY: WHAT", sorted
/// by line. Needs at least one.
[[noreturn]] void throw_faults(const std::string& origin, std::vector<Fault> faults);

/// `node` as the value of "section.key", in maps around it.
YAML::Node nested(const std::string& key, const YAML::Node& node);

bool is_utf8(const std::string& text);

/// The one map that the untrusted text of a YAML file has. Throws InputError for what is not UTF-8
/// or YAML, and for other than one document.
YAML::Node load_yaml(const std::string& text, const std::string& origin);

/// Fills `message` from the untrusted text of a YAML file with one map. Throws InputError for what
/// is not UTF-8 or YAML, for other than one document, and for each fault that `reader` finds.
void read_yaml_text(const std::string& text, const std::string& origin, YamlMessageReader& reader,
                    google::protobuf::Message& message);

}  // namespace dotresize
