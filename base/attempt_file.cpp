#include "base/attempt_file.h"

#include <nlohmann/json.hpp>

#include "base/checked_json.h"
#include "base/environment.h"
#include "base/errors.h"
#include "base/parse_number.h"

namespace dotresize {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxAttemptFileBytes = uint64_t{2} << 20;

}  // namespace

std::string attempt_file_text(const AttemptFile& attempt) {
  const Json content = {{"coordinator", attempt.coordinator},
                        {"ca", attempt.ca},
                        {"job_id", attempt.job_id},
                        {"attempt", attempt.attempt},
                        {"token", attempt.token}};
  return content.dump() + "\n";
}

AttemptFile read_attempt_file(const std::filesystem::path& path) {
  const Json content = read_json_object(path, kMaxAttemptFileBytes);
  try {
    return {content.at("coordinator").get<std::string>(), content.at("ca").get<std::string>(),
            content.at("job_id").get<std::string>(), content.at("attempt").get<int>(),
            content.at("token").get<std::string>()};
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
  return attempt;
}

}  // namespace dotresize
