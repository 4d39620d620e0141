#include "client/local/remote_job.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/file_changes.h"
#include "base/files/input_file.h"
#include "base/process/program.h"
#include "client/display/progress_display.h"
#include "job/spec/job_file.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

constexpr char kJobFile[] = "job.json";

TransferResult transfer(const std::string& phase, const std::vector<std::string>& command) {
  ProgressDisplay display;
  TransferOutput output(
      phase, [&](const v1::Progress& progress) { display.show(progress); },
      [&] { display.tick(); });
  const int exit_code = run_program(command, output);
  display.clear();
  return output.result(exit_code);
}

}  // namespace

std::vector<HeldCopy> fetch_inputs(JobFile& file, const RemoteCache& cache, bool weights) {
  std::vector<HeldCopy> held;
  RemoteCopies copies;
  for (const RemoteInput& input : remote_inputs(file.spec, !weights)) {
    try {
      const TransferResult copy =
          transfer(kFetchPhase, fetch_command(input.url, input.kind, cache));
      held.emplace_back(copy.path);
      copies[input.url] = copy;
    } catch (const TransferError& error) {
      if (error.code() == TransferError::kCancelled) throw;
      const std::string what = error.code() + ": " + error.what();
      throw TransferError(error.code(), located(file, input.key, what));
    }
  }
  localize(file.spec, copies, cache);
  return held;
}

int exit_code_of(const TransferError& error) {
  const std::string& code = error.code();
  if (code == TransferError::kCancelled) return kExitCancelled;
  if (code == TransferError::kNetwork || code == "NO_SPACE") return kExitTryAgain;
  if (code == "NO_CREDENTIALS" || code == "NO_PERMISSION") return kExitDenied;
  return code == "FAILED" ? kExitJobFailed : kExitBadData;
}

RemoteOutput::RemoteOutput(const v1::JobSpec& given, const v1::JobSpec& local,
                           const RemoteCache& cache)
    : url_(given.output().path()),
      overwrite_(given.output().overwrite()),
      job_(job_spec_to_json(local)),
      path_(cache.output_for(url_)),
      job_file_(path_.parent_path() / kJobFile) {}

bool RemoteOutput::require_free() const {
  std::error_code error;
  const bool made = fs::exists(path_, error) && fs::exists(job_file_, error) &&
                    read_whole_file(job_file_, kMaxJobFileBytes) == job_;
  if (fs::exists(path_, error) && !made) {
    throw InputError("output.path", "another job has left its output for " + url_ + " in " +
                                        path_.string() +
                                        ": run that one again, which pushes it, or remove it");
  }
  transfer(kPushPhase, look_command({url_, overwrite_}, made ? path_ : fs::path()));
  return made;
}

void RemoteOutput::prepare() const {
  files::create_directories(path_.parent_path());
  write_file_atomically(job_file_, job_);
}

std::string RemoteOutput::push() const {
  const TransferResult pushed = transfer(kPushPhase, push_command(path_, {url_, overwrite_}));
  files::remove_all(path_.parent_path());
  return fmt::format("{} ({})", url_, pushed.revision);
}

}  // namespace dotresize
