#include "worker/commands/run/output/statistics_directory.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/files/confinement.h"
#include "base/files/durable_file.h"
#include "base/files/file_changes.h"
#include "base/files/partial_path.h"
#include "base/text/checked_json.h"
#include "base/text/printable.h"
#include "job/plan/check_files.h"
#include "worker/calibration/storage/statistics.h"
#include "worker/commands/run/output/fingerprints.h"
#include "worker/commands/run/resume.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr char kEntries[] = "junctions";
constexpr size_t kMaxManifestBytes = 16 << 20;

Json read_manifest(const fs::path& dir) {
  return read_json_object(dir / kStatisticsFile, kMaxManifestBytes);
}

Json without_stamps(Json manifest) {
  manifest.erase(kInputStamps);
  return manifest;
}

}  // namespace

StatisticsDirectory::StatisticsDirectory(Communicator& comm, const ResolvedJob& job,
                                         const ModelConfig& config, const Json& fingerprint,
                                         const InputStamps& inputs, const OutputRights& rights)
    : job_(job), dir_(job.statistics.directory()) {
  std::string state;
  if (comm.rank() == 0) {
    whole_ = find(fingerprint, inputs);
    if (!whole_) begin(fingerprint, inputs, rights);
    state = "begun";
    if (whole_) state = read_manifest(kept_.path()).value(kBases, kOwnBases);
  }
  state = broadcast_string(comm, state, 0);
  whole_ = state != "begun";
  if (!whole_ && comm.rank() != 0) {
    unfinished_.emplace(dir_, job.statistics.key(), UnfinishedDirectory::Parent::kExists);
    unfinished_->enter();
  }
  if (whole_ && comm.rank() != 0) kept_ = open_kept();
  const fs::path entries = (whole_ ? kept_.path() : unfinished_->path()) / kEntries;
  if (!whole_) remove_damaged(comm, entries);
  journal_.emplace(entries);
  comm.barrier();  // no rank writes before all have looked
  if (whole_) check_entries(comm, config, /*shared_basis=*/state == kSharedBasis);
}

PinnedDirectory StatisticsDirectory::open_kept() const {
  PinnedDirectory kept(Confinement::of_process().open(dir_, O_RDONLY | O_DIRECTORY));
  if (kept && fs::exists(kept.path() / kStatisticsFile) &&
      fs::is_directory(kept.path() / kEntries)) {
    return kept;
  }
  throw InputError(job_.statistics.key(),
                   in_quotes(dir_.string()) + " has no statistics written by dotresize");
}

bool StatisticsDirectory::find(const Json& fingerprint, const InputStamps& inputs) {
  const std::string key = job_.statistics.key();
  const UniqueFd entry = Confinement::of_process().open(dir_, O_PATH | O_NOFOLLOW);
  if (!entry && errno == ENOENT) {
    if (job_.statistics.saved()) return false;
    throw InputError(key, in_quotes(dir_.string()) + ": no such directory");
  }
  kept_ = open_kept();
  Json wanted = fingerprint;
  Json found = read_manifest(kept_.path());
  const Json kept = std::exchange(found, without_stamps(found));
  for (Json* each : {&wanted, &found}) {
    // Statistics may have parts that the method does not need.
    const SumsOfPasses sums = job_.method.sums();
    if (!sums.in_basis().cost) each->erase(kCosts);
    if (!sums.second.any()) each->erase(kBases);
  }
  const std::string what = difference(wanted, found, "the statistics");
  if (!what.empty()) {
    throw InputError(key, in_quotes(dir_.string()) + " has the statistics of another job: " + what);
  }
  if (const auto input = changed_input(inputs, kept, kept_.path())) {
    throw InputError(key, in_quotes(dir_.string()) + " has the statistics of another model: " +
                              input->string() + " is not, or not known to be, the file of then");
  }
  return true;
}

void StatisticsDirectory::begin(const Json& fingerprint, const InputStamps& inputs,
                                const OutputRights& rights) {
  const std::string key = job_.statistics.key();
  unfinished_.emplace(dir_, key, UnfinishedDirectory::Parent::kMake);
  unfinished_->lock();
  const fs::path partial = unfinished_->path();
  const std::string shown = partial_path(dir_).string();
  const bool begun = fs::exists(fs::symlink_status(partial / kStatisticsFile));
  const std::optional<OutputOwner> mark = read_output_owner(partial);
  if (!begun && !mark && !fs::is_empty(partial)) {
    throw InputError(key, shown +
                              " is not empty and was not written by a dotresize job; remove it or "
                              "choose another path");
  }
  if ((begun || mark) && !rights.cover(mark)) {
    throw InputError(key, shown + " " + ownership_fault(mark.value_or(OutputOwner{}).name));
  }
  if (begun) {
    const Json found = read_manifest(partial);
    if (difference(fingerprint, without_stamps(found), "").empty() &&
        !changed_input(inputs, found, partial)) {
      return Journal::remove_unfinished(partial / kEntries);
    }
  }
  // The content belongs to another job, and nobody can use it.
  const std::error_code error = empty_directory(partial);
  if (error) throw InputError(key, shown + ": " + error.message());
  if (!rights.owner.job_id.empty()) write_output_owner(partial, rights.owner);
  files::create_directory(partial / kEntries);
  Json manifest = fingerprint;
  manifest[kInputStamps] = stamps_to_json(inputs);
  write_file_atomically(partial / kStatisticsFile, manifest.dump(2) + "\n");
}

void StatisticsDirectory::check_entries(Communicator& comm, const ModelConfig& config,
                                        bool shared_basis) const {
  const std::vector<std::string> entries = job_.target.allocation
                                               ? curve_entries(config, job_)
                                               : junction_entries(config, job_, shared_basis);
  const std::vector<std::string> damaged =
      gather_names(comm, journal_->damaged(comm.rank(), comm.size()));  // ranks share the work
  if (comm.rank() != 0) return;
  const auto refuse = [&](const std::string& entry, const char* how) {
    throw InputError(job_.statistics.key(),
                     fmt::format("{}: {} is {}", in_quotes(dir_.string()), printable(entry), how));
  };
  for (const std::string& name : entries) {
    if (!journal_->has(name)) refuse(name, "missing");
  }
  if (!damaged.empty()) refuse(damaged.front(), "damaged");
}

void StatisticsDirectory::publish(Communicator& comm) {
  comm.barrier();  // every rank has written its entries
  const fs::path directory = unfinished_->path();
  if (comm.rank() == 0) {
    sync_directory(directory / kEntries);
    sync_directory(directory);
    unfinished_->require_name(unfinished_->partial_name());
    std::error_code error;
    files::rename_to_free_name(unfinished_->beside(unfinished_->partial_name()),
                               unfinished_->beside(unfinished_->name()), error);
    if (error) throw cannot_write(job_.statistics.key(), dir_, error.value());
    sync_directory(unfinished_->parent().path());
  }
  comm.barrier();
  whole_ = true;
}

}  // namespace dotresize
