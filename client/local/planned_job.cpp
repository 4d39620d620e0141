#include "client/local/planned_job.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "client/local/remote_job.h"
#include "job/checkpoint/source_model.h"
#include "job/manifest/mpi_job.h"
#include "job/model/read_model_config.h"
#include "job/model/tokenizer_steps.h"
#include "job/plan/estimate/hardware.h"
#include "job/plan/plan_table.h"
#include "job/plan/resolve/job_resources.h"
#include "job/report/job_identity.h"
#include "job/spec/spec_paths.h"
#include "job/spec/validate_spec.h"

namespace dotresize {
namespace {

constexpr char kOutputKey[] = "output.path";

/// Calls `body`, and adds the place in the file to its InputError. An error without a key belongs
/// to `default_key`.
template <class Body>
auto with_place(const JobFile& file, const std::string& default_key, const Body& body) {
  try {
    return body();
  } catch (const InputError& error) {
    if (error.field().starts_with("--")) throw;
    const std::string key = error.field().empty() ? default_key : error.field();
    throw InputError(located(file, key, error.description()));
  }
}

/// Plans the job for `hardware` instead of this machine.
JobPlan plan_on_hardware(const v1::JobSpec& spec, const ModelConfig& model,
                         const v1::Hardware& hardware) {
  const LaunchFacts launch = launch_facts(hardware, ranks_of(spec));
  const std::optional<DeviceKind> asked = asked_device(spec);
  if (asked && *asked != launch.devices.device) {
    throw InputError("--hardware", "has device: " + to_string(launch.devices.device) +
                                       ", but the job requests " + to_string(*asked));
  }
  return plan_job(spec, model, launch);
}

std::vector<FileFinding> find_faults(const JobPlan& plan, bool pushed) {
  const ResolvedJob& job = plan.job;
  std::vector<FileFinding> findings = check_inputs(job, plan.model);
  const std::string warning =
      gives_text(job) ? warning_about_tokenizer(job.model.path, plan.model) : "";
  if (!warning.empty()) findings.push_back({"model.path", warning, /*fatal=*/false});
  const auto fault = output_fault(job.output.path, job.output.overwrite, job.output.path);
  if (fault && !pushed) findings.push_back({kOutputKey, fault->what});
  const int64_t width = job.widths.largest();
  if (3 * width < 2 * plan.model.hidden_size) {
    findings.push_back({"method",
                        fmt::format("width {} is less than two thirds of {}: the model will be "
                                    "much worse than one of the same size with only `size` in "
                                    "`method`",
                                    width, plan.model.hidden_size),
                        /*fatal=*/false});
  }
  if (plan.model.tie_word_embeddings && !plan.output.tie_word_embeddings) {
    findings.push_back({"method",
                        "embedding and head, one table in the model, become two in the output",
                        /*fatal=*/false});
  }
  return findings;
}

std::optional<ino_t> inode_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_ino;
}

}  // namespace

PlannedJob plan_job(const PlanRequest& request) {
  PlannedJob planned;
  planned.file = open_job_file(request.job_file, request.changes);
  planned.given = planned.file.spec;
  planned.held = fetch_inputs(planned.file, request.remote, request.for_run);
  const v1::JobSpec& spec = planned.file.spec;
  const SourceModel source = with_place(planned.file, "model.path", [&] {
    const std::string& path = spec.model().path();
    require_model_directory(path);
    check_companions(path);
    SourceModel read = read_source_model(path);
    require_equal_tied_head(path, read);
    return read;
  });
  const ModelConfig& model = source.config;
  std::optional<v1::Hardware> hardware;
  if (!request.hardware.empty()) hardware = read_hardware(request.hardware);
  planned.plan = with_place(planned.file, "method", [&] {
    return hardware ? plan_on_hardware(spec, model, *hardware) : plan_job(spec, model);
  });
  if (hardware) {
    planned.time = estimate_time(model, planned.plan.job, planned.plan.shards, *hardware);
  }
  for (const std::string& warning : source.warnings) {
    planned.findings.push_back({"model.path", warning, /*fatal=*/false});
  }
  std::ranges::move(find_faults(planned.plan, is_remote(planned.given.output().path())),
                    std::back_inserter(planned.findings));
  return planned;
}

void require_runnable(const PlannedJob& planned, bool to_write) {
  std::string faults;
  for (const FileFinding& finding : planned.findings) {
    if (!finding.fatal || (finding.key == kOutputKey && !to_write)) continue;
    faults += (faults.empty() ? "" : "\n") + located(planned.file, finding.key, finding.what);
  }
  if (!faults.empty()) throw InputError(faults);
}

std::string plan_warnings(const PlannedJob& planned) {
  std::string text;
  for (const FileFinding& finding : planned.findings) {
    text += "warning: " + located(planned.file, finding.key, finding.what) + "\n";
  }
  return text;
}

std::string plan_text(const PlannedJob& planned) {
  const std::string alternatives = alternatives_table(planned.alternatives);
  return plan_table(planned.plan, planned.time) + "\n" +
         (alternatives.empty() ? "" : "\n" + alternatives) + plan_warnings(planned);
}

std::string plan_json(const PlannedJob& planned) {
  nlohmann::ordered_json document =
      nlohmann::ordered_json::parse(plan_to_json(planned.plan, planned.time));
  for (const SizeAlternative& each : planned.alternatives) {
    document["alternatives"].push_back({{"recipe", each.recipe},
                                        {"width", each.width},
                                        {"bytes_fraction_at_most", each.bytes_fraction},
                                        {"relative_time", each.relative_time}});
  }
  for (const FileFinding& finding : planned.findings) {
    document["warnings"].push_back(finding.key + ": " + finding.what);
  }
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string job_manifest(const PlannedJob& planned, const ManifestRequest& request, bool json) {
  constexpr char kJobFile[] = "job.json";
  const v1::JobSpec& spec = planned.file.spec;
  const std::string job_file = Manifest::parse(job_spec_to_json(spec)).dump();
  MpiJobParts parts;
  parts.name = mpi_job_name(spec.name(), job_file);
  parts.labels = {{"dotresize.dev/job", parts.name}};
  parts.ranks = planned.plan.job.resources.ranks;
  parts.cpus = request.cpus;
  parts.rank_memory = peak_memory(planned.plan.shards);
  parts.gpus = spec.resources().device() == v1::Resources::cuda;
  parts.arguments = {"--work-dir", "/tmp", std::string(kJobFolder) + "/" + kJobFile};
  parts.config_map = parts.name;
  const Manifest mpi_job = make_mpi_job(read_mpi_job_template(request.template_file), parts);
  Manifest metadata = {{"name", parts.name}};
  for (const char* key : {"namespace", "labels"}) {
    if (mpi_job["metadata"].contains(key)) metadata[key] = mpi_job["metadata"][key];
  }
  const Manifest config_map = {{"apiVersion", "v1"},
                               {"kind", "ConfigMap"},
                               {"metadata", metadata},
                               {"immutable", true},
                               {"data", {{kJobFile, job_file}}}};
  if (!json) return yaml_of_json(config_map) + "---\n" + yaml_of_json(mpi_job);
  const Manifest list = {
      {"apiVersion", "v1"}, {"kind", "List"}, {"items", Manifest::array({config_map, mpi_job})}};
  return list.dump(2) + "\n";
}

FinishedOutput::FinishedOutput(const PlannedJob& planned)
    : path_(planned.plan.job.output.path),
      overwrite_(planned.plan.job.output.overwrite),
      identity_(job_identity(planned.file.spec)),
      before_(inode_of(path_)) {}

bool FinishedOutput::is_there() const {
  return before_ && !overwrite_ && is_output_of(path_, identity_);
}

bool FinishedOutput::came_since() const {
  return inode_of(path_) != before_ && is_output_of(path_, identity_);
}

}  // namespace dotresize
