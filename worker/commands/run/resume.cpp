#include "worker/commands/run/resume.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files/confinement.h"
#include "base/files/durable_file.h"
#include "base/files/file_changes.h"
#include "base/files/input_file.h"
#include "base/files/partial_path.h"
#include "base/text/checked_json.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"
#include "worker/commands/run/output/fingerprints.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFingerprintBytes = 16 << 20;
constexpr char kThreads[] = "decomposition_threads";
constexpr char kSvd[] = "svd_driver";
constexpr char kFresh[] = "; --fresh starts the job again from the beginning";

[[noreturn]] void refuse_damaged(const std::string& what) {
  throw InputError("output.path", "the journal of an earlier run is damaged: " + what + kFresh);
}

Json read_fingerprint(const fs::path& file) {
  try {
    return read_json_object(file, kMaxFingerprintBytes);
  } catch (const InputError& error) {
    refuse_damaged(error.what());
  }
}

/// Settings that affect the rounding of decompositions.
struct Decompositions {
  int threads = 0;
  std::optional<SvdDriver> svd_driver;  ///< GPUs only
};

/// Checks that an existing journal is undamaged, of the same job, and of the same inputs. `file`:
/// its fingerprint.
Decompositions check_journal(const fs::path& dir, const fs::path& file, const Json& fingerprint,
                             const InputStamps& inputs) {
  const Json found = read_fingerprint(file);
  Json of_job = found;
  for (const char* key : {kThreads, kSvd, kInputStamps}) of_job.erase(key);
  const std::string what = difference(fingerprint, of_job, "the journal");
  if (!what.empty()) {
    throw InputError("output.path",
                     shown_path(dir) + " is the journal of another job: " + what + kFresh);
  }
  if (const auto input = changed_input(inputs, found, dir)) {
    throw InputError("model.path", input->string() +
                                       " was replaced or changed since the interrupted run, and "
                                       "its content is not, or not known to be, the same" +
                                       kFresh);
  }
  constexpr int64_t kMaxThreads = 1 << 16;
  const Json threads = found.value(kThreads, Json());
  if (!threads.is_number_integer() || threads <= 0 || threads > kMaxThreads) {
    refuse_damaged(shown_path(file) + ": " + kThreads + " is not a number of threads");
  }
  Decompositions decompositions{threads, std::nullopt};
  if (!found.contains(kSvd)) return decompositions;
  const Json& svd = found.at(kSvd);
  if (svd.is_string()) decompositions.svd_driver = svd_driver_named(svd.get<std::string>());
  if (!decompositions.svd_driver) {
    refuse_damaged(shown_path(file) + ": " + kSvd + " is not an SVD driver");
  }
  return decompositions;
}

/// Begins the journal, or checks an existing one. Runs on rank 0.
Decompositions begin_or_check(const fs::path& dir, const Json& fingerprint,
                              const InputStamps& inputs, const Decompositions& own) {
  files::create_directory(dir);
  Journal::remove_unfinished(dir);
  const fs::path file = dir / kJournalOfJob;
  if (fs::exists(file)) return check_journal(dir, file, fingerprint, inputs);
  if (!Journal(dir).entries().empty()) refuse_damaged(shown_path(file) + " is missing");
  Json begun = fingerprint;
  begun[kThreads] = own.threads;
  if (own.svd_driver) begun[kSvd] = to_string(*own.svd_driver);
  begun[kInputStamps] = stamps_to_json(inputs);
  write_file_atomically(file, begun.dump(2) + "\n");
  return own;
}

}  // namespace

std::vector<std::string> gather_names(Communicator& comm, const std::vector<std::string>& mine) {
  std::vector<std::string> all;
  for (const std::string& text : gather_strings(comm, Json(mine).dump(), 0)) {
    for (const Json& name : Json::parse(text)) all.push_back(name.get<std::string>());
  }
  return all;
}

void remove_damaged(Communicator& comm, const fs::path& dir) {
  Journal journal(dir);
  comm.barrier();  // ranks share the entries, so all must see the same ones
  const std::vector<std::string> mine = journal.damaged(comm.rank(), comm.size());
  for (const std::string& name : mine) journal.remove(name);
  for (const std::string& name : gather_names(comm, mine)) {
    fmt::print(stderr, "note: {} of the journal is damaged and will be computed again\n",
               printable(name));
  }
  comm.barrier();
}

std::string journal_schedule(const fs::path& output) {
  const fs::path file = partial_path(output) / kJournalDirectory / kJournalOfJob;
  if (!fs::exists(file)) return "";
  const Json schedule = read_fingerprint(file).value("schedule", Json());
  return schedule.is_string() ? schedule.get<std::string>() : "";
}

void check_space(const fs::path& dir, int64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(dir, error);
  if (error || static_cast<int64_t>(space.available) >= bytes) return;
  throw std::runtime_error(fmt::format(
      "{}: {} are free, and what is written there takes {}", shown_path(dir),
      human_bytes(static_cast<int64_t>(space.available)), human_bytes_rounded_up(bytes)));
}

std::string name_of(const TokenWindows& evaluation) {
  return fmt::format("{}-{}x{}", evaluation.fingerprint, evaluation.windows.size(0),
                     evaluation.windows.size(1));
}

OpenedJournal open_journal(Communicator& comm, const fs::path& dir, const Json& fingerprint,
                           const InputStamps& inputs, int64_t mapped_junctions, bool shared_map,
                           int decomposition_threads, std::optional<SvdDriver> svd_driver) {
  Decompositions begun{decomposition_threads > 0 ? decomposition_threads : at::get_num_threads(),
                       svd_driver};
  if (comm.rank() == 0) begun = begin_or_check(dir, fingerprint, inputs, begun);
  const auto threads = static_cast<int>(gather_numbers(comm, begun.threads).front());
  const auto driver = static_cast<SvdDriver>(
      gather_numbers(comm, static_cast<int64_t>(begun.svd_driver.value_or(SvdDriver::kGesvd)))
          .front());
  remove_damaged(comm, dir);
  OpenedJournal opened{Journal(dir), {}, threads, driver};
  comm.barrier();  // no rank writes before all have looked
  for (int64_t junction = 0; junction < mapped_junctions; ++junction) {
    const bool has_map = opened.journal.has(entries::kMap(shared_map ? kSharedMap : junction));
    if (has_map && opened.journal.has(entries::kJunction(junction)))
      opened.finished.insert(junction);
  }
  const size_t entries = opened.journal.entries().size();
  if (comm.rank() == 0 && entries > 0) {
    const std::string done = mapped_junctions == 0
                                 ? fmt::format("{} results are kept", entries)
                                 : fmt::format("{} of {} junctions are solved",
                                               opened.finished.size(), mapped_junctions);
    fmt::print(stderr, "resuming: {}; {}\n", done, shown_path(dir));
  }
  return opened;
}

std::vector<JunctionReport> report_junctions(const Journal& journal, const JunctionWidths& widths,
                                             bool transport) {
  std::vector<JunctionReport> reports;
  for (const int64_t width : widths.all) {
    const auto junction = static_cast<int64_t>(reports.size());
    JunctionReport& report = reports.emplace_back();
    report.name = junction_name(junction);
    report.width = width;
    report.mapped = junction < widths.mapped_count;
    if (!report.mapped) continue;
    const MapDiagnostics found = journal.diagnostics(entries::kJunction(junction));
    report.effective_rank = found.effective_rank;
    report.retained_energy = found.retained_energy;
    report.spectrum = found.spectrum;
    if (!transport) continue;
    report.sinkhorn_iterations = found.sinkhorn_iterations;
    report.sinkhorn_violation = found.sinkhorn_violation;
    report.sinkhorn_converged = found.sinkhorn_converged;
    report.qr_condition = found.qr_condition;
    report.transport = found.transport;
  }
  return reports;
}

}  // namespace dotresize
