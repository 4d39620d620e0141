#include "base/files/attempt_file.h"

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/process/environment.h"
#include "base/text/checked_json.h"
#include "base/text/encodings.h"

namespace dotresize {
namespace {

using Json = nlohmann::json;

constexpr char kRoots[] = "DOTRESIZE_ALLOWED_ROOTS";
constexpr uint64_t kMaxAttemptFileBytes = uint64_t{2} << 20;

}  // namespace

std::string attempt_file_text(const AttemptFile& attempt) {
  const Json content = {
      {"coordinator", attempt.coordinator},   {"ca", attempt.ca},       {"job_id", attempt.job_id},
      {"attempt", attempt.attempt},           {"token", attempt.token}, {"roots", attempt.roots},
      {"rights", rights_text(attempt.rights)}};
  return content.dump() + "\n";
}

AttemptFile read_attempt_file(const std::filesystem::path& path) {
  const Json content = read_json_object(path, kMaxAttemptFileBytes);
  try {
    AttemptFile attempt{content.at("coordinator").get<std::string>(),
                        content.at("ca").get<std::string>(),
                        content.at("job_id").get<std::string>(),
                        content.at("attempt").get<int>(),
                        content.at("token").get<std::string>(),
                        content.value("roots", std::vector<std::string>())};
    // A server of an earlier version, which looked at its job table, wrote no rights.
    attempt.rights = content.contains("rights")
                         ? parse_rights(content.at("rights").get<std::string>())
                         : OutputRights{{attempt.job_id, attempt.attempt}, /*any=*/true};
    return attempt;
  } catch (const Json::exception& error) {
    throw InputError(path.string() + ": " + json_fault(error));
  }
}

std::optional<AttemptFile> attempt_from_environment() {
  AttemptFile attempt;
  attempt.coordinator = environment_variable("DOTRESIZE_COORDINATOR");
  if (attempt.coordinator.empty()) return std::nullopt;
  attempt.job_id = environment_variable("DOTRESIZE_JOB_ID");
  attempt.attempt = parse_number<int>(environment_variable("DOTRESIZE_ATTEMPT")).value_or(0);
  attempt.token = environment_variable("DOTRESIZE_ATTEMPT_TOKEN");
  attempt.roots = roots_from_environment();
  attempt.rights = rights_from_environment();
  return attempt;
}

std::string roots_variable(const std::vector<std::string>& roots) {
  return std::string(kRoots) + "=" + Json(roots).dump();
}

std::vector<std::string> roots_from_environment() {
  const std::string roots = environment_variable(kRoots);
  if (roots.empty()) return {};
  try {
    return Json::parse(roots).get<std::vector<std::string>>();
  } catch (const Json::exception& error) {
    throw InputError(std::string(kRoots) +
                     " is not a JSON list of directories: " + json_fault(error));
  }
}

}  // namespace dotresize
