#include "server/store/job_output.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <utility>

#include "base/errors.h"
#include "base/files/confinement.h"
#include "base/files/file_changes.h"
#include "base/files/output_owner.h"
#include "base/files/partial_path.h"
#include "base/process/work_budget.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"
#include "job/report/stored_report.h"
#include "job/spec/spec_paths.h"
#include "job/sweep/sweep_plan.h"
#include "job/sweep/sweep_results.h"
#include "job/sweep/sweep_run.h"
#include "server/common/api_error.h"
#include "server/store/files.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kKeptReport[] = "result";  // directory in the job's folder

constexpr int kMostWarnings = 20;
constexpr size_t kLongestWarning = 500;  // bytes

}  // namespace

std::optional<std::string> read_pinned_file(const fs::path& path, size_t max_bytes, size_t memory) {
  const PinnedDirectory directory(path.parent_path());
  if (!directory) return std::nullopt;
  const UniqueFd file = open_beneath(directory.descriptor(), path.filename(), O_PATH);
  struct stat status = {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  if (static_cast<size_t>(status.st_size) > max_bytes) {
    throw InputError(path.string() + ": is larger than " +
                     human_bytes(static_cast<int64_t>(max_bytes)));
  }
  WorkBudget::take(memory * static_cast<size_t>(status.st_size));  // before there is any of it
  return read_file_start(path_of_descriptor(file.get()), max_bytes);
}

JobOutput::JobOutput(fs::path path, std::string job_id)
    : path_(std::move(path)), job_id_(std::move(job_id)) {}

bool JobOutput::is_committed(std::optional<int> attempt) const {
  const PinnedDirectory output(path_);
  if (!output) return false;
  const std::optional<OutputOwner> owner = owner_of_output(output.path());
  return owner && owner->job_id == job_id_ && owner->attempt == attempt.value_or(owner->attempt);
}

int64_t JobOutput::unfinished_bytes() const {
  const PinnedDirectory partial(partial_path(path_));
  return partial ? size_of_directory(partial.path()) : 0;
}

template <class Body>
void JobOutput::with_partial(Body&& body) const {
  const PinnedDirectory parent(path_.parent_path());
  if (!parent) return;
  const fs::path name = partial_path(path_.filename());
  const PinnedDirectory partial(try_lock_file(parent.path() / name, LockedFile::kDirectory));
  if (!partial || !parent.holds(name, partial)) return;
  const std::optional<OutputOwner> owner = owner_of_partial(partial.path());
  const bool mine = owner ? owner->job_id == job_id_ : is_empty_partial(partial.path());
  if (mine) body(parent, name, partial);
}

void JobOutput::trim() const {
  try {
    with_partial([](const auto& parent, const fs::path& name, const auto& partial) {
      const std::error_code error = trim_unfinished(parent, name, partial);
      if (error) throw std::system_error(error);
    });
  } catch (const std::system_error& error) {
    spdlog::error("cannot remove the partial output of {}: {}", path_.string(), error.what());
  }
}

TrashedDirectory JobOutput::discard_committed(Trash& trash) const {
  try {
    if (is_committed()) return trash.take_beside(path_, path_);
  } catch (const std::system_error& error) {
    spdlog::error("cannot remove the output {}: {}", path_.string(), error.what());
  }
  return {};
}

TrashedDirectory JobOutput::discard(Trash& trash) const {
  TrashedDirectory moved;
  try {
    with_partial([&](const auto& parent, const fs::path& name, const auto&) {
      moved = trash.take_beside(parent.path() / name, partial_path(path_));
    });
  } catch (const std::system_error& error) {
    spdlog::error("cannot remove the partial output of {}: {}", path_.string(), error.what());
  }
  return moved;
}

void DiscardedOutput::remove() {
  unfinished.remove();
  unpushed.remove();
}

DiscardedOutput discard_output(const v1::Job& job, const fs::path& output, Trash& trash) {
  const JobOutput of_job(output, job.id());
  DiscardedOutput moved{of_job.discard(trash), {}};
  if (is_remote(job.spec().output().path())) moved.unpushed = of_job.discard_committed(trash);
  return moved;
}

void remove_job(JobStore& store, const StateDir& state, Trash& trash, const std::string& id) {
  DiscardedOutput left;
  TrashedDirectory folder;
  store.remove(id, [&](const v1::Job& job, const std::string& output) {
    if (job.attempt() > 0) left = discard_output(job, output, trash);
    folder = trash.take(state.job(id));
  });
  left.remove();
  folder.remove();
}

void check_sweep_directory(const fs::path& output) {
  const auto refuse = [&](const std::string& what) {
    throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "OUTPUT_FOREIGN",
                   "output.path: " + output.string() + " " + what, {{"field", "output.path"}});
  };
  std::error_code error;
  const fs::file_status status = fs::symlink_status(output, error);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() != fs::file_type::directory) {
    refuse("is no directory of its own, which a sweep has");
  }
  for (const char* folder : {kSweepVariants, kSweepStatistics}) {
    if (fs::is_symlink(fs::symlink_status(output / folder, error))) {
      refuse("has a link in place of its folder " + std::string(folder));
    }
  }
  const std::string fault = sweep_directory_fault(output);
  if (!fault.empty()) refuse(fault);
}

std::optional<v1::SweepResults> read_sweep_results(const fs::path& output) {
  // The text, its conversion, and the message itself.
  constexpr size_t kMemoryPerByte = 8;
  const auto text = read_pinned_file(output / kSweepResults, kMaxSweepBytes, kMemoryPerByte);
  if (!text) return std::nullopt;
  return results_message(*text);
}

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

v1::JobResult sweep_result_of(const v1::Job& job, const std::string& output,
                              std::chrono::milliseconds time) {
  const auto results = read_sweep_results(output);
  if (!results) throw InputError(output + "/results.json is missing");
  v1::JobResult result;
  result.set_output_path(job.spec().output().path());
  result.mutable_dense()->set_parameters(results->dense().parameters());
  result.mutable_dense()->set_bytes(results->dense().bytes());
  result.mutable_dense()->set_perplexity(results->dense().perplexity());
  result.set_wall_time_s(std::chrono::duration<double>(time).count());
  return result;
}

void keep_report(const fs::path& output, const fs::path& kept) {
  files::create_directories(kept);
  for (const char* name : {kModelCard, kSumsFile}) files::copy_file(output / name, kept / name);
  files::create_directories(kept / kReportDirectory);
  for (const fs::directory_entry& file : fs::directory_iterator(output / kReportDirectory)) {
    const bool is_maps = file.path().filename() == kMapsFile;  // as large as the model
    if (is_maps || !fs::is_regular_file(file.symlink_status())) continue;
    files::copy_file(file, kept / kReportDirectory / file.path().filename());
  }
}

fs::path reported_in(const v1::Job& job, const fs::path& folder, const fs::path& output) {
  if (!is_remote(job.spec().output().path())) return output;
  std::error_code error;
  const fs::path place = fs::canonical(folder, error);  // PinnedDirectory needs a canonical path
  return (error ? folder : place) / kKeptReport;
}

}  // namespace dotresize
