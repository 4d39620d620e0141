#include "job/spec/job_file.h"

#include <google/protobuf/util/json_util.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/files/input_file.h"
#include "base/text/printable.h"
#include "job/spec/spec_paths.h"
#include "job/spec/validate_spec.h"
#include "job/spec/yaml_file.h"

namespace dotresize {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Keys = std::vector<std::string>;

/// Groups of keys of which a job has at most one.
const std::array<Keys, 4> kAlternatives = {{{kSizeKeys.begin(), kSizeKeys.end()},
                                            {"method.mlp.sparsity", "method.mlp.width"},
                                            {"calibration.text", "calibration.tokens"},
                                            {"evaluation.text", "evaluation.tokens"}}};

bool is_or_lies_in(const std::string& key, const std::string& section) {
  return key == section || key.starts_with(section + ".");
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
  for (const Fault& found : reader.faults) fault(found.key, found.what);
  return change;
}

}  // namespace

std::string JobFile::place_of(const std::string& key) const {
  const std::string* change = nearest(changed, key);
  return change == nullptr ? origin + ":" + std::to_string(line_of(lines, key)) : *change;
}

std::string located(const JobFile& file, const std::string& key, const std::string& what) {
  return file.place_of(key) + ": " + key + ": " + what;
}

JobFile parse_job(const std::string& text, const std::string& origin,
                  const std::filesystem::path& base_dir, const std::vector<std::string>& changes) {
  JobFile job;
  job.origin = origin;
  const YAML::Node root = load_yaml(text, origin);
  if (const YAML::Node section = root[kSweepSection]) {
    throw_faults(origin,
                 {{section.Mark().line + 1, kSweepSection,
                   "makes this a sweep, not a job: `dotresize sweep " + origin + "` runs it"}});
  }
  YamlMessageReader reader;
  reader.read(root, job.spec);
  if (!reader.faults.empty()) throw_faults(origin, reader.faults);
  job.lines = reader.lines;
  make_absolute(job.spec, base_dir);
  job.changed = apply_changes(changes, job.spec);
  job.spec.set_name(name_of(job.spec));
  std::vector<Fault> faults;
  for (const FieldViolation& violation : validate_spec(job.spec)) {
    const std::string& key = violation.field;
    const std::string* change = nearest(job.changed, key);
    faults.push_back(
        {line_of(job.lines, key), key, violation.description, change == nullptr ? "" : *change});
  }
  if (!faults.empty()) throw_faults(origin, std::move(faults));
  return job;
}

JobFile open_job_file(const std::filesystem::path& path, const std::vector<std::string>& changes) {
  return parse_job(read_whole_file(path, kMaxJobFileBytes), path.string(), path.parent_path(),
                   changes);
}

std::string job_spec_to_json(const v1::JobSpec& spec) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(spec, &json, options);
  if (!status.ok()) throw std::invalid_argument("a job has no JSON form: " + status.ToString());
  return json;
}

void clear_key(const std::string& key, v1::JobSpec& spec) {
  Message* at = &spec;
  for (std::size_t begin = 0;;) {
    const std::size_t dot = key.find('.', begin);
    const FieldDescriptor* field =
        at->GetDescriptor()->FindFieldByName(key.substr(begin, dot - begin));
    const google::protobuf::Reflection& reflection = *at->GetReflection();
    if (dot == std::string::npos) return reflection.ClearField(at, field);
    if (!reflection.HasField(*at, field)) return;
    at = reflection.MutableMessage(at, field);
    begin = dot + 1;
  }
}

void set_key(const std::string& key, const v1::JobSpec& part, v1::JobSpec& spec) {
  clear_key(key, spec);
  for (const Keys& keys : kAlternatives) {
    for (const std::string& chosen : keys) {
      if (!is_or_lies_in(key, chosen)) continue;
      for (const std::string& other : keys) {
        if (other != chosen) clear_key(other, spec);
      }
    }
  }
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
