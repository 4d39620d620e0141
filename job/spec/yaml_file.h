#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "job/spec/yaml_message.h"

namespace dotresize {

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
