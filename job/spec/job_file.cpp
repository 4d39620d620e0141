#include "job/spec/job_file.h"

#include <google/protobuf/util/json_util.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "base/files/input_file.h"
#include "job/spec/job_changes.h"
#include "job/spec/spec_paths.h"
#include "job/spec/validate_spec.h"
#include "job/spec/yaml_file.h"

namespace dotresize {
namespace {

/// Returns the change that has set the key or a section around it; empty if the key comes from the
/// file.
std::string change_of(const std::map<std::string, std::string>& changed, std::string key) {
  while (!key.empty()) {
    if (const auto found = changed.find(key); found != changed.end()) return found->second;
    const std::size_t dot = key.rfind('.');
    key.resize(dot == std::string::npos ? 0 : dot);
  }
  return "";
}

}  // namespace

std::string JobFile::place_of(const std::string& key) const {
  const std::string change = change_of(changed, key);
  return change.empty() ? origin + ":" + std::to_string(line_of(lines, key)) : change;
}

std::string located(const JobFile& file, const std::string& key, const std::string& what) {
  return file.place_of(key) + ": " + key + ": " + what;
}

JobFile parse_job(const std::string& text, const std::string& origin,
                  const std::filesystem::path& base_dir, const std::vector<std::string>& changes) {
  JobFile job;
  job.origin = origin;
  YamlMessageReader reader;
  read_yaml_text(text, origin, reader, job.spec);
  job.lines = reader.lines();
  make_absolute(job.spec, base_dir);
  job.changed = apply_changes(changes, job.spec);
  std::vector<Fault> faults;
  for (const FieldViolation& violation : validate_spec(job.spec, /*require_absolute_paths=*/true)) {
    const std::string& key = violation.field;
    faults.push_back(
        {line_of(job.lines, key), key, violation.description, change_of(job.changed, key)});
  }
  if (!faults.empty()) throw_faults(origin, std::move(faults));
  return job;
}

v1::JobSpec parse_job_text(const std::string& text, const std::string& origin,
                           const std::filesystem::path& base_dir) {
  return parse_job(text, origin, base_dir).spec;
}

JobFile open_job_file(const std::filesystem::path& path, const std::vector<std::string>& changes) {
  return parse_job(read_whole_file(path, kMaxJobFileBytes), path.string(), path.parent_path(),
                   changes);
}

v1::JobSpec read_job_file(const std::filesystem::path& path,
                          const std::vector<std::string>& changes) {
  return open_job_file(path, changes).spec;
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

}  // namespace dotresize
