#include "server/admission/job_admission.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/errors.h"
#include "base/files/partial_path.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/model/read_model_config.h"
#include "job/plan/check_files.h"
#include "job/plan/plan_job.h"
#include "job/plan/plan_table.h"
#include "job/spec/spec_paths.h"
#include "job/spec/validate_spec.h"
#include "server/common/api_error.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxRequestId = 128;
constexpr int kMaxPriority = 100;
constexpr int kMaxLabels = 16;
constexpr size_t kMaxLabel = 63;

/// Runs `body` and turns an InputError into a violation of the field that it names, or of
/// `default_field`.
template <class Body>
auto with_field(const std::string& default_field, Body&& body) {
  try {
    return body();
  } catch (const InputError& error) {
    throw invalid_argument(error, default_field);
  }
}

struct PlannedMemory {
  int64_t bytes = 0;  ///< host memory of all ranks together
  std::string plan;   ///< readable plan
};

/// Plans the job and returns its memory. On this machine each rank's budget is an equal part of
/// the machine's memory, unless the spec has one. Elsewhere each rank is given what the largest one
/// needs.
PlannedMemory planned_memory(v1::JobSpec spec, bool here, const AdmissionContext& context) {
  const Amounts& capacity = context.machine.capacity;
  const ModelConfig config = checked_config(spec, context);
  if (here) set_memory_budget(spec, capacity.memory);
  const JobPlan plan =
      with_field("spec", [&] { return plan_job(spec, config, {}, context.paths.confinement()); });
  const std::vector<RankShard>& ranks = plan.shards.ranks;
  int64_t memory = 0;
  int64_t largest = 0;
  for (const RankShard& rank : ranks) {
    memory += rank.peak_memory_bytes;
    largest = std::max(largest, rank.peak_memory_bytes);
  }
  if (!here) memory = largest * std::ssize(ranks);
  if (here && memory > capacity.memory) {
    throw invalid_argument("resources.memory", "the ranks take " + human_bytes(memory) +
                                                   " together, but this server has " +
                                                   human_bytes(capacity.memory) +
                                                   " for jobs (--memory)");
  }
  std::string text = plan_table(plan) + "\n";
  std::vector<FieldViolation> fatal;
  for (const FileFinding& finding : check_inputs(plan.job, config)) {
    if (finding.fatal) fatal.push_back({finding.key, finding.what});
    text += "warning: " + finding.key + ": " + finding.what + "\n";
  }
  if (!fatal.empty()) throw invalid_argument(std::move(fatal));
  return {memory, std::move(text)};
}

void check_output(const std::string& output, const v1::Output& spec) {
  check_output_name(output);
  const auto refuse = [](const std::string& reason, const std::string& what) {
    throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, reason, "output.path: " + what,
                   {{"field", "output.path"}});
  };
  if (const auto fault = output_fault(output, spec.overwrite(), output)) {
    refuse(fault->foreign ? "OUTPUT_FOREIGN" : "OUTPUT_EXISTS", fault->what);
  }
  const fs::path partial = partial_path(output);
  if (!is_free_partial(partial)) {
    refuse("OUTPUT_FOREIGN",
           partial.string() +
               ", the place of the unfinished output, is not empty and was not written by a "
               "dotresize job");
  }
}

}  // namespace

void check_request(const std::string& request_id, const v1::JobOptions& options) {
  if (request_id.size() > kMaxRequestId || !is_plain_word(request_id, "._:-")) {
    throw invalid_argument("request_id", "must have at most 128 characters of [A-Za-z0-9._:-]");
  }
  if (options.GetReflection()->GetUnknownFields(options).field_count() > 0) {
    throw invalid_argument("options", "has a field that this server does not know");
  }
  if (options.priority() < -kMaxPriority || options.priority() > kMaxPriority) {
    throw invalid_argument("options.priority",
                           std::to_string(options.priority()) + " is not from -100 to 100");
  }
  if (options.has_deadline_s() && options.deadline_s() == 0) {
    throw invalid_argument("options.deadline_s", "must be at least 1");
  }
  if (options.labels_size() > kMaxLabels) {
    throw invalid_argument("options.labels", "has more than 16 entries");
  }
  const auto is_word = [](const std::string& text) {
    return text.size() <= kMaxLabel && is_plain_word(text, "._/-");
  };
  for (const auto& [key, value] : options.labels()) {
    if (key.empty() || !is_word(key) || !is_word(value)) {
      throw invalid_argument("options.labels",
                             in_quotes(key) + ": " + in_quotes(value) +
                                 " is not 1 and 0 to 63 characters of [A-Za-z0-9._/-]");
    }
  }
}

std::string chosen_launcher(const v1::JobSpec& spec, const Machine& machine) {
  if (!spec.resources().has_launcher()) return machine.launchers.front();
  const std::string& asked = spec.resources().launcher();
  if (machine.offers(asked)) return asked;
  throw invalid_argument("resources.launcher", "this server has no " + asked + ", only " +
                                                   listed(machine.launchers) + " (--launcher)");
}

void check_counts(const v1::JobSpec& spec, const Amounts& capacity) {
  const int ranks = ranks_of(spec);
  if (ranks > capacity.ranks) {
    throw invalid_argument("resources.ranks",
                           std::to_string(ranks) + " is more than this server runs at once, " +
                               std::to_string(capacity.ranks) + " (--max-ranks)");
  }
  if (gpus_needed(spec.resources().device(), ranks, capacity) > capacity.gpus) {
    throw invalid_argument(
        "resources.device",
        "this server has " + std::to_string(capacity.gpus) +
            " GPUs for jobs (CUDA_VISIBLE_DEVICES); cuda takes one for each of the " +
            std::to_string(ranks) + " ranks");
  }
}

void check_output_name(const std::string& output) {
  if (!is_unfinished_output(output)) return;
  throw invalid_argument(
      "output.path", "names that end in .partial or .replaced are reserved for unfinished outputs");
}

ModelConfig checked_config(const v1::JobSpec& spec, const AdmissionContext& context) {
  return with_field("model.path", [&] {
    require_model_directory(spec.model().path());
    check_companions(spec.model().path());
    return context.models.config_of(spec.model().path(), context.paths.confinement());
  });
}

void set_memory_budget(v1::JobSpec& spec, int64_t memory) {
  if (spec.resources().has_memory()) return;
  spec.mutable_resources()->set_memory(std::to_string(memory / ranks_of(spec)));
}

NewJob admit(const v1::CreateJobRequest& request, const AdmissionContext& context,
             const std::optional<RemoteCopies>& copies) {
  const Machine& machine = context.machine;
  const PathPolicy& paths = context.paths;
  const v1::JobSpec& spec = request.spec();
  check_request(request.request_id(), request.options());
  if (spec.ByteSizeLong() > kMaxSpecBytes) {
    throw invalid_argument("spec", "is larger than " + std::to_string(kMaxSpecBytes) + " bytes");
  }
  std::vector<FieldViolation> violations = validate_spec(spec);
  if (!violations.empty()) throw invalid_argument(std::move(violations));
  v1::JobSpec resolved = paths.resolve(spec);
  std::vector<PathClaim> claims = claims_of(resolved);
  localize(resolved, copies.value_or(RemoteCopies()), paths.remote().cache());
  const bool fetching = has_remote_paths(spec) && !copies;
  const std::string launcher = chosen_launcher(resolved, machine);
  const bool here = launcher == kLocalLauncher;
  if (here) check_counts(resolved, machine.capacity);
  PlannedMemory planned = {0, "the plan is made once all inputs of the job have been fetched\n"};
  if (!fetching) {
    planned = planned_memory(resolved, here, context);
  }
  if (is_remote(spec.output().path())) {
    check_output_name(resolved.output().path());
  } else {
    check_output(resolved.output().path(), resolved.output());
  }
  return {spec,
          request.request_id(),
          resolved.output().path(),
          std::move(claims),
          "",
          request.options(),
          launcher,
          planned.bytes,
          std::move(planned.plan),
          std::nullopt,
          {},
          "",
          fetching};
}

v1::JobSpec readmit(const v1::JobSpec& spec, const std::string& output, const PathPolicy& paths,
                    const RemoteCopies& copies) {
  // Keys of an earlier version are refused: job.json would lack them and describe another job.
  std::vector<FieldViolation> unknown = unknown_fields(spec);
  if (!unknown.empty()) throw invalid_argument(std::move(unknown));
  v1::JobSpec resolved = paths.resolve(spec);
  localize(resolved, copies, paths.remote().cache());
  if (resolved.output().path() != output) {
    throw ApiError(
        grpc::StatusCode::FAILED_PRECONDITION, "OUTPUT_MOVED",
        "output.path: does not lead to " + output + " any more, unlike when the job was accepted",
        {{"field", "output.path"}});
  }
  return resolved;
}

}  // namespace dotresize
