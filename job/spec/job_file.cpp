#include "job/spec/job_file.h"

#include <google/protobuf/util/json_util.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/errors.h"
#include "base/input_file.h"
#include "job/spec/spec_paths.h"
#include "job/spec/yaml_message.h"

namespace dotresize {
namespace {

constexpr std::size_t kMaxJobFileBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxFaultsShown = 50;

[[noreturn]] void fail(const std::string& origin, std::vector<Fault> faults) {
  std::stable_sort(faults.begin(), faults.end(),
                   [](const Fault& a, const Fault& b) { return a.line < b.line; });
  std::string message;
  for (std::size_t i = 0; i < std::min(faults.size(), kMaxFaultsShown); ++i) {
    const Fault& fault = faults[i];
    message += (i == 0 ? "" : "\n") + origin + ":" + std::to_string(fault.line) + ": " +
               (fault.key.empty() ? "" : fault.key + ": ") + fault.what;
  }
  if (faults.size() > kMaxFaultsShown) {
    message +=
        "\n" + origin + ": and " + std::to_string(faults.size() - kMaxFaultsShown) + " more faults";
  }
  throw InputError(message);
}

void require_utf8(const std::string& text, const std::string& origin) {
  try {
    nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    fail(origin, {{1, "", "is not UTF-8 text"}});
  }
}

YAML::Node load_document(const std::string& text, const std::string& origin) {
  std::vector<YAML::Node> documents;
  try {
    // Without the last newlines: yaml-cpp overlooks an open quote if one ends the text.
    documents = YAML::LoadAll(text.substr(0, text.find_last_not_of("\r\n") + 1));
  } catch (const YAML::DeepRecursion& error) {
    fail(origin, {{error.mark.line + 1, "", "is nested too deeply"}});
  } catch (const YAML::Exception& error) {
    fail(origin, {{error.mark.line + 1, "", "is not valid YAML: " + error.msg}});
  }
  if (documents.empty() || documents[0].IsNull()) fail(origin, {{1, "", "is empty"}});
  if (documents.size() > 1) {
    fail(origin, {{documents[1].Mark().line + 1, "", "a second YAML document; one job is wanted"}});
  }
  if (!documents[0].IsMap()) {
    fail(origin, {{documents[0].Mark().line + 1, "", "must be a map, starting with a key"}});
  }
  return documents[0];
}

void make_absolute(v1::JobSpec& spec, const std::filesystem::path& base_dir) {
  for (const SpecPath& path : paths_of(spec)) {
    if (!path.value->empty()) *path.value = absolute_path(*path.value, base_dir).string();
  }
}

}  // namespace

v1::JobSpec parse_job_text(const std::string& text, const std::string& origin,
                           const std::filesystem::path& base_dir) {
  require_utf8(text, origin);
  v1::JobSpec spec;
  YamlMessageReader reader;
  reader.read(load_document(text, origin), spec);
  if (!reader.faults().empty()) fail(origin, reader.faults());

  make_absolute(spec, base_dir);
  std::vector<Fault> faults;
  for (const FieldViolation& violation : validate_spec(spec, /*require_absolute_paths=*/true)) {
    faults.push_back({reader.line_of(violation.field), violation.field, violation.description});
  }
  if (!faults.empty()) fail(origin, faults);
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
