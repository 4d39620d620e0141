#include "server/web/job_report.h"

#include <string>
#include <utility>

#include "base/errors.h"
#include "base/files/partial_path.h"
#include "job/sweep/sweep_results.h"
#include "server/schedule/job_output.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

// Parsed, a report takes several times as much memory.
constexpr size_t kMaxShownBytes = size_t{16} << 20;

std::string read_report(const fs::path& file) {
  auto text = read_pinned_file(file, kMaxShownBytes);
  if (!text) throw InputError(file.string() + " is not there any more");
  return std::move(*text);
}

}  // namespace

bool may_have_report(const v1::Job& job) {
  return job.has_sweep() ? job.attempt() > 0 : job.state() == v1::Job::SUCCEEDED;
}

Page read_report_page(const v1::Job& job, const fs::path& output) {
  if (job.has_sweep()) {
    const fs::path file = output / kSweepResults;
    return sweep_page(read_report(file), file.string());
  }
  if (!JobOutput(output, job.id()).is_committed()) {
    throw InputError(output.string() + " is not the model of this job any more");
  }
  const fs::path file = output / kReportDirectory / kReportFile;
  return report_page(parse_report(read_report(file), file.string()));
}

}  // namespace dotresize
