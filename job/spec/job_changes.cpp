#include "job/spec/job_changes.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>

#include "base/errors.h"
#include "base/text/printable.h"
#include "job/spec/spec_paths.h"
#include "job/spec/yaml_file.h"

namespace dotresize {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Keys = std::vector<std::string>;

/// Groups of keys of which a job has at most one.
const std::array<Keys, 4> kAlternatives = {{{"method.sparsity", "method.width", "method.size"},
                                            {"method.mlp.sparsity", "method.mlp.width"},
                                            {"calibration.text", "calibration.tokens"},
                                            {"evaluation.text", "evaluation.tokens"}}};

Keys parts_of(const std::string& key) {
  Keys parts;
  std::size_t begin = 0;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', begin)) {
    parts.push_back(key.substr(begin, dot - begin));
    begin = dot + 1;
  }
  parts.push_back(key.substr(begin));
  return parts;
}

bool is_or_lies_in(const std::string& key, const std::string& section) {
  return key == section || key.starts_with(section + ".");
}

void clear_alternatives(const std::string& key, v1::JobSpec& spec) {
  for (const Keys& keys : kAlternatives) {
    for (const std::string& chosen : keys) {
      if (!is_or_lies_in(key, chosen)) continue;
      for (const std::string& other : keys) {
        if (other != chosen) clear_key(other, spec);
      }
    }
  }
}

/// One parsed change.
struct Change {
  std::string key;
  bool removes = false;
  v1::JobSpec spec;  ///< only this key is set
};

/// Parses a change; adds its faults to `faults`.
Change parse_change(const std::string& text, std::vector<Fault>& faults) {
  const auto fault = [&](const std::string& key, const std::string& what) {
    faults.push_back({1, key, what, "--set " + printable(text)});
  };
  Change change;
  if (!is_utf8(text)) {
    fault("", "is not UTF-8 text");
    return change;
  }
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fault("", "is not KEY=VALUE, as in method.size=0.7");
    return change;
  }
  change.key = text.substr(0, equals);
  YAML::Node node;
  try {
    node = YAML::Load(text.substr(equals + 1));
  } catch (const YAML::Exception& error) {
    fault(printable(change.key), "the value is not valid YAML: " + error.msg);
    return change;
  }
  change.removes = node.IsNull();
  YamlMessageReader reader;
  reader.read(nested(change.key, node), change.spec);
  for (const Fault& found : reader.faults()) fault(found.key, found.what);
  return change;
}

}  // namespace

void clear_key(const std::string& key, v1::JobSpec& spec) {
  Message* at = &spec;
  const Keys parts = parts_of(key);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const FieldDescriptor* field = at->GetDescriptor()->FindFieldByName(parts[i]);
    const google::protobuf::Reflection& reflection = *at->GetReflection();
    if (i + 1 == parts.size()) return reflection.ClearField(at, field);
    if (!reflection.HasField(*at, field)) return;
    at = reflection.MutableMessage(at, field);
  }
}

void set_key(const std::string& key, const v1::JobSpec& part, v1::JobSpec& spec) {
  clear_key(key, spec);
  clear_alternatives(key, spec);
  spec.MergeFrom(part);
}

bool exclude_each_other(const std::string& a, const std::string& b) {
  if (is_or_lies_in(a, b) || is_or_lies_in(b, a)) return true;
  return std::ranges::any_of(kAlternatives, [&](const Keys& keys) {
    const auto choice = [&](const std::string& key) {
      return std::ranges::find_if(
          keys, [&](const std::string& each) { return is_or_lies_in(key, each); });
    };
    return choice(a) != keys.end() && choice(b) != keys.end() && choice(a) != choice(b);
  });
}

std::map<std::string, std::string> apply_changes(const std::vector<std::string>& changes,
                                                 v1::JobSpec& spec) {
  std::map<std::string, std::string> places;
  std::vector<Fault> faults;
  for (const std::string& text : changes) {
    const std::size_t before = faults.size();
    Change change = parse_change(text, faults);
    if (faults.size() > before) continue;
    places[change.key] = "--set " + printable(text);
    if (change.removes) {
      clear_key(change.key, spec);
      continue;
    }
    make_absolute(change.spec, "");
    set_key(change.key, change.spec, spec);
  }
  if (!faults.empty()) throw_faults("--set", std::move(faults));
  return places;
}

}  // namespace dotresize
