#include "client/calls/read_page.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/files/partial_path.h"
#include "client/calls/follow.h"
#include "client/calls/job_id.h"
#include "client/display/job_text.h"
#include "client/display/json_output.h"
#include "job/spec/job_file.h"
#include "job/spec/job_state.h"
#include "job/sweep/results_message.h"
#include "job/sweep/sweep_results.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// Largest part of a log that is shown, in bytes.
constexpr int64_t kLogTailBytes = 32'768;

Page page_of_report(const fs::path& file) {
  return report_page(parse_report(read_whole_file(file, kMaxReportBytes), file.string()));
}

Page page_of_sweep(const fs::path& dir) {
  const fs::path file = dir / kSweepResults;
  return sweep_page(read_whole_file(file, kMaxSweepBytes), file.string());
}

/// Last bytes of a file; a longer file's tail begins at a line.
std::string tail_of(const fs::path& path) {
  const InputFile file(path.string());
  const auto limit = static_cast<uint64_t>(kLogTailBytes);
  const uint64_t size = std::min(file.size(), limit);
  std::string tail(size, '\0');
  file.read(tail.data(), size, file.size() - size);
  return size < limit ? tail : tail.substr(tail.find('\n') + 1);
}

/// Page of a sweep's job that has left no report.
Page page_of_failure(const VariantPaths& at) {
  const std::string text = read_whole_file(at.job, kMaxJobFileBytes);
  EndedJob job{.state = "failed", .error = failure_in(at.log), .spec = text};
  if (job.error.empty()) {
    throw InputError(at.dir.string() + ": has no report: the job is running, or was interrupted");
  }
  job.name = parse_job_text(text, at.job.string(), at.dir.string()).name();
  job.facts = {{"Directory", at.dir.string()}};
  job.log_tail = tail_of(at.log);
  return failure_page(job);
}

Page page_of_directory(const fs::path& dir) {
  const fs::path report = dir / kReportDirectory / kReportFile;
  if (fs::exists(report)) return page_of_report(report);
  if (is_sweep_directory(dir)) return page_of_sweep(dir);
  const VariantPaths variant(dir);
  if (fs::exists(variant.job) && fs::exists(variant.log)) return page_of_failure(variant);
  throw InputError(dir.string() +
                   ": is neither a model that dotresize wrote nor a sweep's directory");
}

std::string log_tail(Connection& connection, const std::string& id) {
  const std::string tail = read_log_tail(connection, id, kLogTailBytes);
  return std::ssize(tail) < kLogTailBytes ? tail : tail.substr(tail.find('\n') + 1);
}

Page page_of_job(const std::string& id_or_prefix, const CommonOptions& common) {
  Connection connection = common.connect();
  const std::string id = find_job_id(connection, id_or_prefix);
  const v1::Job job = connection.get_job(id);
  if (job.has_sweep()) {
    const auto [plan, rows] = reported_sweep(connection.get_sweep(id).results());
    if (!rows.empty()) return sweep_page(sweep_json(plan, rows), id);
  }
  if (job.state() == v1::Job::SUCCEEDED) return page_of_directory(job.result().output_path());
  if (!has_ended(job.state())) {
    throw InputError("job " + id + " has no report: it is " + state_name(job));
  }
  EndedJob ended{.name = job.spec().name(), .state = state_name(job)};
  ended.facts = job_rows(job, std::time(nullptr));
  std::erase_if(ended.facts, [](const auto& row) { return row.front() == "error"; });
  if (job.has_error()) ended.error = error_text(job.error());
  ended.spec = to_json(job.spec()).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  ended.log_tail = log_tail(connection, id);
  return failure_page(ended);
}

}  // namespace

bool is_sweep_directory(const fs::path& dir) {
  return fs::exists(dir / kSweepResults) && fs::is_directory(dir / kSweepVariants) &&
         !fs::exists(dir / kReportDirectory / kReportFile);
}

Page read_page(const std::string& what, const CommonOptions& common) {
  return fs::is_directory(what) ? page_of_directory(what) : page_of_job(what, common);
}

}  // namespace dotresize
