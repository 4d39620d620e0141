#include "server/job_result.h"

#include <google/protobuf/util/time_util.h>

#include "base/errors.h"
#include "base/printable.h"
#include "job/report/report.h"
#include "job/spec/job_state.h"
#include "server/job_table.h"
#include "server/sweep_directory.h"

namespace dotresize {
namespace {

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

}  // namespace dotresize
