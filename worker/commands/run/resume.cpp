#include "worker/commands/run/resume.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/checked_json.h"
#include "base/durable_file.h"
#include "base/errors.h"
#include "base/human_text.h"
#include "base/input_file.h"
#include "base/partial_path.h"
#include "base/printable.h"
#include "base/program.h"
#include "base/sha256.h"
#include "worker/calibration/calibration.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFingerprintBytes = 16 << 20;
constexpr char kThreads[] = "decomposition_threads";
constexpr char kFresh[] = "; --fresh starts the job anew";

/// What says that a file is the one that it was, without reading all of it.
Json file_fingerprint(const fs::path& file) {
  return {{"bytes", fs::file_size(file)},
          {"modified", fs::last_write_time(file).time_since_epoch().count()}};
}

Json method_options(const ResolvedJob& job) {
  Json options = {{"name", job.method.name},
                  {"lambda", job.lambda},
                  {"cost_scale", to_string(job.cost_scale)},
                  {"map_sharing", to_string(job.map_sharing)},
                  {"shortcuts", to_string(job.shortcuts)},
                  {"head_sliced", job.head_sliced},
                  {"sinkhorn_tolerance", job.sinkhorn_tolerance},
                  {"sinkhorn_max_iterations", job.sinkhorn_max_iterations},
                  {"accept_nonconvergence", job.accept_nonconvergence}};
  if (job.gradients()) {
    options["metric"] = to_string(job.metric);
    options["labels"] = to_string(job.labels);
    options["label_seed"] = job.label_seed;
  }
  if (job.mlp) {
    options["mlp"] = {{"width", job.mlp->width}, {"expert_width", job.mlp->expert_width}};
  }
  if (!job.energy) {
    options["width"] = job.widths.largest();
    return options;
  }
  options["round_to"] = job.energy->round_to;
  options["keep"] = job.energy->keep ? Json(*job.energy->keep) : Json();
  options["size"] = job.energy->size ? Json(*job.energy->size) : Json();
  return options;
}

[[noreturn]] void refuse_damaged(const std::string& what) {
  throw InputError("output.path", "the journal of an earlier run is damaged: " + what + kFresh);
}

Json read_fingerprint(const fs::path& file) {
  try {
    return parse_json_object(read_whole_file(file.string(), kMaxFingerprintBytes), file.string());
  } catch (const InputError& error) {
    refuse_damaged(error.what());
  }
}

/// The number of threads of the decompositions.
int threads_of(const Json& fingerprint, const fs::path& file) {
  constexpr int64_t kMaxThreads = 1 << 16;
  const Json threads = fingerprint.value(kThreads, Json());
  const bool known = threads.is_number_integer() && threads > 0 && threads <= kMaxThreads;
  if (!known) refuse_damaged(file.string() + ": " + kThreads + " is no number of threads");
  return threads;
}

/// The first value of `job` that `journal` has otherwise, both flat; empty if there is none.
std::string difference(const Json& job, const Json& journal) {
  const auto text = [](const Json& object, const std::string& key) {
    return object.contains(key) ? printable(object.at(key).dump()) : "absent";
  };
  Json all = job;
  all.update(journal);
  for (const auto& [key, value] : all.items()) {
    if (job.contains(key) && journal.contains(key) && job.at(key) == journal.at(key)) continue;
    std::string name = key.empty() ? "all of it" : key.substr(1);
    for (char& c : name) c = c == '/' ? '.' : c;
    return fmt::format("{} is {}, and {} in the journal", printable(name), text(job, key),
                       text(journal, key));
  }
  return "";
}

void check_same_job(const fs::path& dir, const Json& job, Json journal) {
  journal.erase(kThreads);
  const std::string what = difference(job.flatten(), journal.flatten());
  if (what.empty()) return;
  throw InputError("output.path",
                   dir.string() + " is the journal of another job: " + what + kFresh);
}

/// Rank 0.
int begin_or_check(const fs::path& dir, const Json& fingerprint) {
  fs::create_directory(dir);
  Journal::remove_unfinished(dir);
  const fs::path file = dir / kJournalOfJob;
  if (fs::exists(file)) {
    const Json found = read_fingerprint(file);
    check_same_job(dir, fingerprint, found);
    return threads_of(found, file);
  }
  if (!Journal(dir).entries().empty()) refuse_damaged(file.string() + " is missing");
  Json begun = fingerprint;
  begun[kThreads] = at::get_num_threads();
  write_file_atomically(file, begun.dump(2) + "\n");
  return at::get_num_threads();
}

void remove_damaged(Communicator& comm, const fs::path& dir) {
  Journal journal(dir);
  comm.barrier();  // the entries are dealt out, so all ranks must have the same ones
  const Json names = journal.remove_damaged(comm.rank(), comm.size());
  for (const std::string& text : gather_strings(comm, names.dump(), 0)) {
    for (const Json& name : Json::parse(text)) {
      fmt::print(stderr, "note: {} of the journal is damaged, and is computed again\n",
                 printable(name.get<std::string>()));
    }
  }
  comm.barrier();
}

JunctionReport describe_junction(const std::string& name, int64_t width,
                                 const MapDiagnostics& found, bool transport) {
  JunctionReport report;
  report.name = name;
  report.width = width;
  report.effective_rank = found.effective_rank;
  report.retained_energy = found.retained_energy;
  if (!transport) return report;
  report.sinkhorn_iterations = found.sinkhorn_iterations;
  report.sinkhorn_violation = found.sinkhorn_violation;
  report.sinkhorn_converged = found.sinkhorn_converged;
  report.qr_condition = found.qr_condition;
  report.cost_dtype = found.half_cost ? Dtype::kFloat16 : Dtype::kFloat32;
  report.cost_error = found.half_cost_error;
  return report;
}

}  // namespace

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
      "{}: {} are free, and the output and its journal take {}", dir.string(),
      human_bytes(static_cast<int64_t>(space.available)), human_bytes_rounded_up(bytes)));
}

Json job_fingerprint(const ResolvedJob& job, const TokenWindows& calibration,
                     const std::vector<fs::path>& weights) {
  Json model = {{"config.json", sha256_of_file(job.model_path / "config.json")}};
  for (const fs::path& file : weights) model[file.filename().string()] = file_fingerprint(file);
  return {{"version", kVersion},
          {"model", std::move(model)},
          {"calibration_tokens", calibration.fingerprint},
          {"calibration",
           {{"samples", calibration.windows.size(0)}, {"seqlen", calibration.windows.size(1)}}},
          {"method", method_options(job)},
          {"schedule", job.schedule.name},
          {"output_dtype", to_string(job.output_dtype)},
          {"device", to_string(job.device)},
          {"compute_dtype", to_string(job.compute_dtype)}};
}

std::string dense_loss_entry(const TokenWindows& evaluation) {
  return fmt::format("dense-{}-{}x{}", evaluation.fingerprint, evaluation.windows.size(0),
                     evaluation.windows.size(1));
}

OpenedJournal open_journal(Communicator& comm, const fs::path& dir, const Json& fingerprint,
                           int64_t mapped_junctions, const std::vector<int64_t>& sharing) {
  const int begun_with = comm.rank() == 0 ? begin_or_check(dir, fingerprint) : 0;
  const auto threads = static_cast<int>(gather_numbers(comm, begun_with).front());
  remove_damaged(comm, dir);
  OpenedJournal opened{Journal(dir), {}, threads};
  comm.barrier();  // nobody writes before everybody has looked
  for (int64_t junction = 0; junction < mapped_junctions; ++junction) {
    const bool has_map = opened.journal.has_map(first_with_same_map(sharing, junction));
    if (has_map && opened.journal.has_diagnostics(junction)) opened.finished.insert(junction);
  }
  const size_t entries = opened.journal.entries().size();
  if (comm.rank() == 0 && entries > 0) {
    fmt::print(stderr, "resuming: {} of {} junctions are solved; {}\n", opened.finished.size(),
               mapped_junctions, dir.string());
  }
  return opened;
}

std::vector<JunctionReport> report_junctions(const Journal& journal, const JunctionWidths& widths,
                                             bool transport) {
  std::vector<JunctionReport> reports;
  for (const int64_t width : widths.all) {
    const auto junction = static_cast<int64_t>(reports.size());
    const std::string name = junction_name(junction);
    if (junction < widths.mapped_count) {
      reports.push_back(describe_junction(name, width, journal.diagnostics(junction), transport));
    } else {
      JunctionReport& report = reports.emplace_back();
      report.name = name;
      report.width = width;
      report.mapped = false;
    }
  }
  return reports;
}

}  // namespace dotresize
