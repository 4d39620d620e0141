#include "job/spec/job_file.h"

#include <google/protobuf/util/json_util.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "base/input_file.h"
#include "job/spec/spec_paths.h"
#include "job/spec/validate_spec.h"
#include "job/spec/yaml_file.h"

namespace dotresize {
namespace {

constexpr std::size_t kMaxJobFileBytes = std::size_t{1} << 20;
void make_absolute(v1::JobSpec& spec, const std::filesystem::path& base_dir) {
  for (const SpecPath& path : paths_of(spec)) {
    if (!path.value->empty()) *path.value = absolute_path(*path.value, base_dir).string();
  }
}

}  // namespace

v1::JobSpec parse_job_text(const std::string& text, const std::string& origin,
                           const std::filesystem::path& base_dir) {
  v1::JobSpec spec;
  YamlMessageReader reader;
  read_yaml_text(text, origin, reader, spec);

  make_absolute(spec, base_dir);
  std::vector<Fault> faults;
  for (const FieldViolation& violation : validate_spec(spec, /*require_absolute_paths=*/true)) {
    faults.push_back({reader.line_of(violation.field), violation.field, violation.description});
  }
  if (!faults.empty()) throw_faults(origin, std::move(faults));
  return spec;
}

v1::JobSpec read_job_file(const std::filesystem::path& path) {
  return parse_job_text(read_whole_file(path, kMaxJobFileBytes), path.string(), path.parent_path());
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
