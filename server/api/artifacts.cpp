#include "server/api/artifacts.h"

#include <algorithm>

#include "base/errors.h"
#include "base/files/confinement.h"
#include "base/files/output_owner.h"
#include "base/files/partial_path.h"
#include "base/process/work_budget.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"
#include "job/page/page.h"
#include "job/spec/spec_paths.h"
#include "job/status/job_rows.h"
#include "job/sweep/sweep_plan.h"
#include "server/common/api_error.h"
#include "server/store/job_output.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kLog[] = "log";
constexpr char kJobFile[] = "job.json";
constexpr char kPlan[] = "plan.txt";
constexpr int64_t kMaxHashedBytes = int64_t{1} << 30;
// Memory of all that is made of SHA256SUMS, for each of its bytes.
constexpr size_t kMemoryPerSumByte = 8;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(fs::symlink_status(path, error));
}

/// Returns true for the files that describe a model: model card, report and its page.
bool is_result(const std::string& name) {
  const std::string of_report = std::string(kReportDirectory) + "/";
  return name == kModelCard || name == of_report + kReportFile || name == of_report + kPageFile;
}

}  // namespace

int64_t ArtifactFile::size() const {
  return file_ ? static_cast<int64_t>(file_->size()) : std::ssize(text_);
}

std::string ArtifactFile::read(int64_t offset, size_t max_bytes) const {
  if (offset >= size()) return "";
  const auto count = std::min(max_bytes, static_cast<size_t>(size() - offset));
  if (!file_) return text_.substr(static_cast<size_t>(offset), count);
  std::string data(count, '\0');
  file_->read(data.data(), count, static_cast<uint64_t>(offset));
  return data;
}

std::string ArtifactFile::sha256() const {
  return file_ ? sha256_of_file(*file_) : sha256_of_bytes(text_.data(), text_.size());
}

JobArtifacts::JobArtifacts(const v1::Job& job, JobStore& store, const StateDir& state)
    : folder_(state.job(job.id())), plan_(store.plan_of(job.id())) {
  if (!has_ended(job.state())) {
    throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "JOB_NOT_ENDED",
                   "job " + job.id() + " is " + v1::Job::State_Name(job.state()) +
                       "; it has files to fetch once it has ended",
                   {{"id", job.id()}});
  }
  for (const char* name : {kJobFile, kLog}) {
    if (is_file(folder_ / name)) entries_.push_back({name, Part::kJob, ""});
  }
  if (!plan_.empty()) entries_.push_back({kPlan, Part::kJob, ""});

  output_ = PinnedDirectory(reported_in(job, folder_, store.output_of(job.id())));
  if (!output_) return;
  if (job.has_sweep()) {
    for (const char* name : {kPageFile, kSweepResults}) {
      if (is_file(output_.path() / name)) entries_.push_back({name, Part::kResult, ""});
    }
    return;
  }
  // The directory may be another job's by now. The attempt is not compared: a push may be a later
  // attempt than the one that made the output.
  const std::optional<OutputOwner> owner = owner_of_output(output_.path());
  if (!owner || owner->job_id != job.id()) {
    output_ = PinnedDirectory();
  } else if (job.state() == v1::Job::SUCCEEDED) {
    add_of_model(/*whole=*/!is_remote(job.spec().output().path()));
  }
}

bool JobArtifacts::is_for_readers(const std::string& name) {
  return name == kLog || name == kJobFile || name == kPlan || name == kPageFile ||
         name == kSweepResults || is_result(name);
}

void JobArtifacts::add_of_model(bool whole) {
  std::vector<std::string> problems;  // malformed lines, ignored
  std::map<std::string, std::string> sums;
  try {
    const std::string text =
        read_whole_file(output_.path() / kSumsFile, kMaxSumsBytes, Confinement());
    WorkBudget::take(kMemoryPerSumByte * text.size());
    sums = parse_sha256_sums(text, problems);
  } catch (const InputError&) {
    return;  // no entries for an output without hashes
  }
  std::erase_if(sums, [](const auto& sum) { return !is_printable(sum.first); });
  for (const auto& [name, sha256] : sums) {
    if (is_result(name)) entries_.push_back({name, Part::kResult, sha256});
  }
  if (!whole) return;
  for (const auto& [name, sha256] : sums) {
    if (!is_result(name)) entries_.push_back({name, Part::kModel, sha256});
  }
  entries_.push_back({kSumsFile, Part::kModel, ""});
}

ArtifactFile JobArtifacts::open_entry(const Entry& entry) const {
  if (entry.name == kPlan && entry.part == Part::kJob) return ArtifactFile(plan_);
  // No confinement is needed: the directory is private or pinned.
  const fs::path& directory = entry.part == Part::kJob ? folder_ : output_.path();
  return ArtifactFile(InputFile((directory / entry.name).string(), Confinement()));
}

v1::Artifact JobArtifacts::describe(const Entry& entry, const ArtifactFile& file) {
  v1::Artifact artifact;
  artifact.set_name(entry.name);
  artifact.set_size(file.size());
  artifact.set_sha256(entry.sha256);
  if (entry.sha256.empty() && file.size() <= kMaxHashedBytes) artifact.set_sha256(file.sha256());
  return artifact;
}

}  // namespace dotresize
