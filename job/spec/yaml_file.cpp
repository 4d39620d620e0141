#include "job/spec/yaml_file.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace dotresize {
namespace {

constexpr std::size_t kMaxFaultsShown = 50;

void require_utf8(const std::string& text, const std::string& origin) {
  try {
    nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw_faults(origin, {{1, "", "is not UTF-8 text"}});
  }
}

YAML::Node load_document(const std::string& text, const std::string& origin) {
  std::vector<YAML::Node> documents;
  try {
    // Without the last newlines: yaml-cpp overlooks an open quote if one ends the text.
    documents = YAML::LoadAll(text.substr(0, text.find_last_not_of("\r\n") + 1));
  } catch (const YAML::DeepRecursion& error) {
    throw_faults(origin, {{error.mark.line + 1, "", "is nested too deeply"}});
  } catch (const YAML::Exception& error) {
    throw_faults(origin, {{error.mark.line + 1, "", "is not valid YAML: " + error.msg}});
  }
  if (documents.empty() || documents[0].IsNull()) throw_faults(origin, {{1, "", "is empty"}});
  if (documents.size() > 1) {
    throw_faults(origin,
                 {{documents[1].Mark().line + 1, "", "a second YAML document; one is wanted"}});
  }
  if (!documents[0].IsMap()) {
    throw_faults(origin,
                 {{documents[0].Mark().line + 1, "", "must be a map, starting with a key"}});
  }
  return documents[0];
}

}  // namespace

void throw_faults(const std::string& origin, std::vector<Fault> faults) {
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

void read_yaml_text(const std::string& text, const std::string& origin, YamlMessageReader& reader,
                    google::protobuf::Message& message) {
  require_utf8(text, origin);
  reader.read(load_document(text, origin), message);
  if (!reader.faults().empty()) throw_faults(origin, reader.faults());
}

}  // namespace dotresize
