#include "server/store/job_result.h"

#include <google/protobuf/util/time_util.h>

#include "base/errors.h"
#include "base/files/partial_path.h"
#include "base/files/sha256_sums.h"
#include "base/text/printable.h"
#include "job/report/report.h"
#include "job/spec/job_state.h"
#include "job/spec/remote_url.h"
#include "server/schedule/job_output.h"
#include "server/store/job_rows.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

constexpr char kKeptReport[] = "result";  // directory in the job's folder

constexpr int kMostWarnings = 20;
constexpr size_t kLongestWarning = 500;  // bytes

}  // namespace

v1::JobResult result_of(const v1::Job& job, const std::string& output) {
  const ReportSummary summary = read_report_summary(output);
  v1::JobResult result;
  result.set_output_path(job.spec().output().path());
  *result.mutable_dense() = to_message(summary.dense);
  *result.mutable_compressed() = to_message(summary.compressed);
  result.set_wall_time_s(summary.wall_time_s);
  for (const std::string& warning : summary.warnings) {
    if (result.warnings_size() < kMostWarnings)
      result.add_warnings(printable(warning, kLongestWarning));
  }
  return result;
}

v1::JobResult sweep_result_of(const v1::Job& job, const std::string& output) {
  using google::protobuf::util::TimeUtil;
  const auto results = read_sweep_results(output);
  if (!results) throw InputError(output + "/results.json is missing");
  v1::JobResult result;
  result.set_output_path(job.spec().output().path());
  result.mutable_dense()->set_parameters(results->dense().parameters());
  result.mutable_dense()->set_bytes(results->dense().bytes());
  result.mutable_dense()->set_perplexity(results->dense().perplexity());
  result.set_wall_time_s(unix_time(TimeUtil::GetCurrentTime()) - unix_time(job.start_time()));
  return result;
}

void keep_report(const fs::path& output, const fs::path& kept) {
  constexpr auto kAgain = fs::copy_options::overwrite_existing | fs::copy_options::recursive;
  fs::create_directories(kept);
  for (const char* name : {kModelCard, kSumsFile})
    fs::copy_file(output / name, kept / name, kAgain);
  fs::create_directories(kept / kReportDirectory);
  for (const fs::directory_entry& file : fs::directory_iterator(output / kReportDirectory)) {
    if (file.path().filename() == kMapsFile) continue;  // as large as the model
    fs::copy(file, kept / kReportDirectory / file.path().filename(), kAgain);
  }
}

fs::path reported_in(const v1::Job& job, const fs::path& folder, const fs::path& output) {
  if (!is_remote(job.spec().output().path())) return output;
  std::error_code error;
  const fs::path place = fs::canonical(folder, error);  // PinnedDirectory needs a canonical path
  return (error ? folder : place) / kKeptReport;
}

}  // namespace dotresize
