#include "base/files/output_owner.h"

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/process/environment.h"
#include "base/text/checked_json.h"
#include "base/text/printable.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kRights[] = "DOTRESIZE_OUTPUT_RIGHTS";

nlohmann::json to_json(const OutputOwner& owner) {
  return {{"job_id", owner.job_id}, {"attempt", owner.attempt}, {"owner", owner.name}};
}

OutputOwner to_owner(const nlohmann::json& content) {
  return {content.at("job_id").get<std::string>(), content.at("attempt").get<int>(),
          content.value("owner", "")};
}

/// Returns the mark of a directory of any kind. A mark counts only in the place where a directory
/// of its kind has it, because other users' directories may lie inside and have any name.
std::optional<OutputOwner> mark_of(const fs::path& dir) {
  if (is_model_of_dotresize(dir)) return owner_of_output(dir);
  std::optional<OutputOwner> mark;
  if (is_unfinished_output(dir)) mark = owner_of_partial(dir);
  return mark ? mark : read_output_owner(dir);
}

}  // namespace

void write_output_owner(const fs::path& dir, const OutputOwner& owner) {
  write_file_atomically(dir / kOwnerOfOutput, to_json(owner).dump() + "\n");
}

std::optional<OutputOwner> read_output_owner(const fs::path& dir) {
  constexpr size_t kMaxOwnerBytes = 4096;
  const fs::path file = dir / kOwnerOfOutput;
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(file, error))) return std::nullopt;
  try {
    return to_owner(nlohmann::json::parse(read_whole_file(file, kMaxOwnerBytes)));
  } catch (const InputError&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::optional<OutputOwner> owner_of_output(const fs::path& output) {
  return read_output_owner(output / kReportDirectory);
}

std::optional<OutputOwner> owner_of_partial(const fs::path& partial) {
  // A job close to its end has already removed its journal.
  const auto owner = read_output_owner(partial / kJournalDirectory);
  return owner ? owner : owner_of_output(partial);
}

bool OutputRights::cover(const std::optional<OutputOwner>& mark) const {
  if (any || !mark) return any;
  return (!mark->job_id.empty() && mark->job_id == owner.job_id) ||
         (!mark->name.empty() && mark->name == owner.name);
}

std::string rights_text(const OutputRights& rights) {
  nlohmann::json content = to_json(rights.owner);
  content["any"] = rights.any;
  return content.dump();
}

OutputRights parse_rights(const std::string& text) {
  try {
    const nlohmann::json content = nlohmann::json::parse(text);
    return {to_owner(content), content.at("any").get<bool>()};
  } catch (const nlohmann::json::exception& error) {
    throw InputError(std::string(kRights) + " is not what a server gives: " + json_fault(error));
  }
}

std::string rights_variable(const OutputRights& rights) {
  return std::string(kRights) + "=" + rights_text(rights);
}

OutputRights rights_from_environment() {
  const std::string text = environment_variable(kRights);
  return text.empty() ? OutputRights{} : parse_rights(text);
}

std::optional<ForeignPlace> foreign_place(const fs::path& path, const OutputRights& rights) {
  if (rights.any) return std::nullopt;
  std::error_code error;
  for (fs::path at = path;; at = at.parent_path()) {
    const std::optional<OutputOwner> mark = mark_of(at);
    const bool is_there = at == path && fs::exists(fs::symlink_status(at, error));
    if (mark || (is_there && !is_empty_partial(at))) {
      if (rights.cover(mark)) return std::nullopt;
      return ForeignPlace{at, mark.value_or(OutputOwner{}).name};
    }
    if (at == at.parent_path()) return std::nullopt;
  }
}

std::string ownership_fault(const std::string& owner) {
  if (owner.empty()) {
    return "has no owner's name in its owner.json, so only an admin's job may replace it or write "
           "in it; choose another path";
  }
  return "belongs to " + in_quotes(owner) +
         ": only its owner's and admins' jobs may replace it or write in it; choose another path";
}

}  // namespace dotresize
