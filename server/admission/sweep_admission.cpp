#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include "base/errors.h"
#include "base/process/work_budget.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/spec/job_file.h"
#include "job/spec/spec_paths.h"
#include "job/spec/sweep_file.h"
#include "job/spec/validate_spec.h"
#include "job/spec/yaml_file.h"
#include "job/sweep/sweep_results.h"
#include "job/sweep/sweep_run.h"
#include "server/admission/job_admission.h"
#include "server/common/api_error.h"
#include "server/store/job_output.h"

namespace dotresize {
namespace {

constexpr char kOrigin[] = "sweep";
// Memory of a message of results for each byte of its JSON.
constexpr size_t kMessagePerByte = 8;
// Keys that can be varied and name files.
constexpr char kTextKey[] = "calibration.text";
constexpr char kTokensKey[] = "calibration.tokens";

void for_each_text(const google::protobuf::Value& value,
                   const std::function<void(const std::string&)>& body) {
  if (value.has_string_value()) body(value.string_value());
  for (const auto& element : value.list_value().values()) for_each_text(element, body);
}

/// Calls `body` with each value that names paths, and with the base job that has only this value
/// set.
template <class Sweep, class Body>
void for_each_path_value(Sweep& sweep, const Body& body) {
  for (auto& axis : sweep.axes) {
    for (auto& value : axis.values) {
      v1::JobSpec part = value.spec;
      const auto is_named = [](const SpecPath& path) { return !path.value->empty(); };
      if (std::ranges::none_of(paths_of(part), is_named)) continue;
      const WorkBudget::Temporary memory_of_one;
      v1::JobSpec with = sweep.base.spec;
      set_key(axis.key, value.spec, with);
      body(axis.key, value, with);
    }
  }
}

SweepPlan planned(SweepFile file, const AdmissionContext& context) {
  set_memory_budget(file.base.spec, context.machine.capacity.memory);
  checked_config(file.base.spec, context);
  SweepPlan plan;
  try {
    plan = plan_sweep(std::move(file), context.paths.confinement());
  } catch (const InputError& error) {
    throw invalid_argument(error, "spec");
  }
  if (plan.jobs.empty()) {
    throw invalid_argument("sweep", "no combination gives a valid job; the first: " +
                                        printable(plan.refused.front().reason, 1000));
  }
  return plan;
}

/// Returns how many jobs run in parallel; `memory`: bytes of the largest one.
int64_t parallel_jobs(const SweepPlan& plan, int64_t memory, const v1::SweepSpec& sweep,
                      const Machine& machine) {
  const v1::JobSpec& spec = plan.file.base.spec;
  const int64_t ranks = ranks_of(spec);
  const Amounts& capacity = machine.capacity;
  const bool gpus =
      gpus_needed(spec.resources().device(), ranks, capacity) > 0;  // all jobs take the same GPUs
  const auto refuse = [](const std::string& what) {
    throw invalid_argument("sweep.parallel", what);
  };
  if (memory > capacity.memory) {
    throw invalid_argument("resources.memory",
                           fmt::format("a job takes {}, and this server has {} for jobs (--memory)",
                                       human_bytes(memory), human_bytes(capacity.memory)));
  }
  const int64_t jobs = std::ssize(plan.jobs);
  if (!sweep.has_parallel()) {
    if (gpus) return 1;
    const int64_t cores = jobs_at_once(plan, {.gpus = false});
    return std::max<int64_t>(
        1, std::min({jobs, cores, capacity.ranks / ranks, capacity.memory / memory}));
  }
  const int64_t asked = sweep.parallel();
  if (asked == 0) refuse("must be at least 1");
  if (gpus && asked > 1) refuse("on GPUs the jobs of a sweep run one after the other");
  if (asked * ranks > capacity.ranks) {
    refuse(
        fmt::format("{} jobs with {} each are more than the {} ranks of this server (--max-ranks)",
                    asked, counted(ranks, "rank"), capacity.ranks));
  }
  if (asked > capacity.memory / memory) {
    refuse(
        fmt::format("{} jobs with {} each take more than this server has for jobs, {} (--memory)",
                    asked, human_bytes(memory), human_bytes(capacity.memory)));
  }
  return std::min(asked, jobs);
}

}  // namespace

SweepFile resolve_sweep(const v1::JobSpec& spec, const v1::SweepSpec& sweep,
                        const PathPolicy& paths) {
  // Relative paths are refused: they would depend on the server's working directory.
  std::vector<FieldViolation> violations;
  const auto check = [&](const std::string& field, const std::string& path) {
    const std::string fault = path.empty() ? "" : absolute_fault(path);
    if (!fault.empty()) violations.push_back({field, fault});
  };
  v1::JobSpec given = spec;
  for (const SpecPath& path : paths_of(given)) check(path.key, *path.value);
  for (const v1::SweepSpec::Axis& axis : sweep.axes()) {
    if (axis.key() != kTextKey && axis.key() != kTokensKey) continue;
    for (const auto& value : axis.values().values()) {
      for_each_text(value, [&](const std::string& text) { check("sweep." + axis.key(), text); });
    }
  }
  if (!violations.empty()) throw invalid_argument(std::move(violations));
  SweepFile file;
  try {
    file = parse_sweep(sweep_to_json(spec, sweep), kOrigin, "/");
  } catch (const FileFaults& error) {
    for (const Fault& fault : error.faults) {
      violations.push_back({fault.key.empty() ? kOrigin : fault.key, fault.what});
    }
    throw invalid_argument(std::move(violations));
  } catch (const InputError& error) {
    throw invalid_argument(error, kOrigin);
  }
  file.base.spec = paths.resolve(file.base.spec);
  for_each_path_value(
      file, [&](const std::string& key, SweepAxis::Value& value, const v1::JobSpec& with) {
        const v1::Calibration resolved = paths.resolve(with).calibration();
        v1::Calibration& part = *value.spec.mutable_calibration();
        if (key == kTextKey) {
          *part.mutable_text() = resolved.text();
        } else {
          part.set_tokens(resolved.tokens());
        }
      });
  return file;
}

std::vector<PathClaim> claims_of(const SweepFile& sweep) {
  std::vector<PathClaim> claims = claims_of(sweep.base.spec);
  std::set<std::string> claimed;
  for (const PathClaim& claim : claims) claimed.insert(claim.path);
  for_each_path_value(sweep,
                      [&](const std::string&, const SweepAxis::Value&, const v1::JobSpec& with) {
                        for (PathClaim& claim : claims_of(with)) {
                          if (!claim.writes && claimed.insert(claim.path).second) {
                            claims.push_back(std::move(claim));
                          }
                        }
                      });
  return claims;
}

void readmit_sweep(v1::Job& job, const std::string& output, const PathPolicy& paths) {
  readmit(job.spec(), output, paths);
  const SweepFile file = resolve_sweep(job.spec(), job.sweep(), paths);
  check_sweep_directory(output);
  *job.mutable_spec() = file.base.spec;
  *job.mutable_sweep() = sweep_spec_of(file);
}

AdmittedSweep admit_sweep(const v1::CreateSweepRequest& request, const AdmissionContext& context) {
  const Machine& machine = context.machine;
  check_request(request.request_id(), request.options());
  const size_t bytes = request.spec().ByteSizeLong() + request.sweep().ByteSizeLong();
  if (bytes > kMaxSpecBytes) {
    throw invalid_argument(
        "sweep", fmt::format("and spec are larger than {} bytes together", kMaxSpecBytes));
  }
  std::vector<FieldViolation> unknown = unknown_fields(request.spec());
  if (!unknown.empty()) throw invalid_argument(std::move(unknown));
  const auto has_unknown = [](const google::protobuf::Message& message) {
    return message.GetReflection()->GetUnknownFields(message).field_count() > 0;
  };
  if (has_unknown(request.sweep()) || std::ranges::any_of(request.sweep().axes(), has_unknown)) {
    throw invalid_argument("sweep", "has a field that this server does not know");
  }
  const SweepFile file = resolve_sweep(request.spec(), request.sweep(), context.paths);
  const bool asks = file.base.spec.resources().has_launcher();
  const std::string launcher = asks ? chosen_launcher(file.base.spec, machine) : kLocalLauncher;
  if (launcher != kLocalLauncher || !machine.offers(kLocalLauncher)) {
    throw invalid_argument("resources.launcher",
                           "a sweep runs on the server's machine, by the launcher local" +
                               std::string(machine.offers(kLocalLauncher)
                                               ? ", not by " + launcher
                                               : ", which this server does not have (--launcher)"));
  }
  check_counts(file.base.spec, machine.capacity);
  const std::string output = file.base.spec.output().path();
  check_output_name(output);
  check_sweep_directory(output);
  const SweepPlan plan = planned(file, context);
  int64_t memory = 1;
  for (const SweepJob& planned_job : plan.jobs) {
    memory = std::max(memory, planned_job.memory_bytes);
  }
  const int64_t parallel = parallel_jobs(plan, memory, request.sweep(), machine);
  NewJob job;
  job.spec = request.spec();
  job.sweep = request.sweep();
  job.sweep_size.set_combinations(static_cast<int32_t>(plan.combinations));
  job.sweep_size.set_jobs(static_cast<int32_t>(plan.jobs.size()));
  job.sweep_size.set_refused(static_cast<int32_t>(plan.refused.size()));
  job.sweep_size.set_parallel(static_cast<int32_t>(parallel));
  job.request_id = request.request_id();
  job.options = request.options();
  job.output = output;
  job.claims = claims_of(file);
  job.memory = parallel * memory;
  job.plan = sweep_summary(plan, static_cast<int>(parallel));
  try {
    std::vector<SweepRow> rows = rows_of(plan);
    compare_rows(plan, rows);
    const std::string results = sweep_json(plan, rows);
    WorkBudget::take(kMessagePerByte * results.size());
    return {std::move(job), results_message(results)};
  } catch (const InputError& error) {  // faulty report in the sweep's directory
    throw invalid_argument(error, "output.path");
  }
}

}  // namespace dotresize
