#include "base/files/output_owner.h"

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/files/partial_path.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kMaxOwnerBytes = 4096;

}  // namespace

void write_output_owner(const fs::path& dir, const OutputOwner& owner) {
  const Json content = {{"job_id", owner.job_id}, {"attempt", owner.attempt}};
  write_file_atomically(dir / kOwnerOfOutput, content.dump() + "\n");
}

std::optional<OutputOwner> read_output_owner(const fs::path& dir) {
  const fs::path file = dir / kOwnerOfOutput;
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(file, error))) return std::nullopt;
  try {
    const Json content = Json::parse(read_whole_file(file, kMaxOwnerBytes));
    return OutputOwner{content.at("job_id").get<std::string>(), content.at("attempt").get<int>()};
  } catch (const InputError&) {
    return std::nullopt;
  } catch (const Json::exception&) {
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

}  // namespace dotresize
