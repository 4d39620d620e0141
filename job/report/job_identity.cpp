#include "job/report/job_identity.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <vector>

#include "base/errors.h"
#include "base/files/directory.h"
#include "base/files/input_file.h"
#include "base/files/partial_path.h"
#include "base/process/program.h"
#include "base/text/sha256.h"
#include "job/plan/check_files.h"
#include "job/report/stored_report.h"
#include "job/spec/job_file.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

/// Size and modification time alone are no proof, because both can be set.
Json stamp_of(const fs::path& file) {
  const std::optional<FileStamp> stamp = stamp_of_file(file);
  if (!stamp) return nullptr;
  return {stamp->bytes, stamp->modified_ns, stamp->changed_ns};
}

}  // namespace

std::string job_identity(const v1::JobSpec& spec) {
  v1::JobSpec content = spec;
  content.mutable_output()->clear_path();
  content.mutable_output()->clear_overwrite();
  v1::Resources& resources = *content.mutable_resources();
  resources.clear_ranks();
  resources.clear_memory();
  resources.clear_device_memory();
  resources.clear_timeout_s();
  resources.clear_launcher();
  Json identity = {{"version", kVersion}, {"spec", job_spec_to_json(content)}};
  std::error_code unreadable;
  for (const fs::directory_entry& file : entries_of(spec.model().path(), unreadable)) {
    std::error_code error;
    if (!file.is_regular_file(error)) continue;
    identity["model"][file.path().filename().string()] = stamp_of(file.path());
  }
  const auto add = [&](const fs::path& file) { identity["inputs"].push_back(stamp_of(file)); };
  for (const std::string& text : spec.calibration().text()) add(text);
  for (const std::string& text : spec.evaluation().text()) add(text);
  add(spec.calibration().tokens());
  add(spec.evaluation().tokens());
  add(fs::path(spec.calibration().statistics().use()) / kStatisticsFile);
  const std::string text = identity.dump(-1, ' ', false, Json::error_handler_t::replace);
  return sha256_of_bytes(text.data(), text.size());
}

bool is_output_of(const fs::path& dir, const std::string& identity) {
  if (!is_complete_output(dir)) return false;
  try {
    const ReportSummary report = read_report_summary(dir);
    const auto found = report.fingerprints.find(kJobFingerprint);
    if (found == report.fingerprints.end() || found->second != identity) return false;
    std::vector<std::string> problems;
    const auto sums = parse_sha256_sums(read_whole_file(dir / kSumsFile, kMaxSumsBytes), problems);
    return problems.empty() && std::ranges::all_of(sums, [&](const auto& entry) {
             std::error_code error;
             return fs::is_regular_file(fs::symlink_status(dir / entry.first, error));
           });
  } catch (const InputError&) {  // damaged: not what a job has written
    return false;
  }
}

}  // namespace dotresize
