#include "server/job_admission.h"

#include <algorithm>
#include <filesystem>

#include "base/errors.h"
#include "base/partial_path.h"
#include "job/model/model_config.h"
#include "job/plan/check_files.h"
#include "job/plan/plan_table.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"
#include "job/spec/validate_spec.h"
#include "server/api_error.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxSpecBytes = size_t{256} * 1024;
constexpr size_t kMaxRequestId = 128;

void check_request_id(const std::string& id) {
  const bool well_formed =
      id.size() <= kMaxRequestId && std::all_of(id.begin(), id.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("._:-").find(c) != std::string_view::npos;
      });
  if (!well_formed) {
    throw invalid_argument("request_id", "must have at most 128 characters of [A-Za-z0-9._:-]");
  }
}

/// A fault that names its field becomes a violation of just that field.
template <class Body>
auto with_field(const std::string& default_field, Body&& body) {
  try {
    return body();
  } catch (const InputError& error) {
    throw invalid_argument(error.field().empty() ? default_field : error.field(),
                           error.description());
  }
}

void refuse_fatal(const std::vector<FileFinding>& findings) {
  std::vector<FieldViolation> violations;
  for (const FileFinding& finding : findings) {
    if (finding.fatal) violations.push_back({finding.key, finding.what});
  }
  if (!violations.empty()) throw invalid_argument(std::move(violations));
}

/// Returns the plan, for people.
std::string check_against_model(const v1::JobSpec& spec, int max_ranks) {
  const ModelConfig config = with_field("model.path", [&] {
    require_model_directory(spec.model().path());
    return read_model_config(spec.model().path());
  });
  const ResolvedJob job = with_field("spec", [&] { return resolve_job(spec, config); });
  const ShardPlan plan =
      with_field("resources.ranks", [&] { return make_shard_plan(config, job); });
  if (job.ranks > max_ranks) {
    throw invalid_argument("resources.ranks", std::to_string(job.ranks) +
                                                  " is more than this server runs at once, " +
                                                  std::to_string(max_ranks) + " (--max-ranks)");
  }
  const std::vector<FileFinding> findings = check_inputs(job, config);
  refuse_fatal(findings);
  std::string text = plan_table(config, job, plan) + "\n";
  for (const FileFinding& finding : findings) {
    text += "warning: " + finding.key + ": " + finding.what + "\n";
  }
  return text;
}

void check_output(const std::string& output, const v1::Output& spec) {
  if (is_unfinished_output(output)) {
    throw invalid_argument("output.path",
                           "names in .partial and .replaced are kept for unfinished outputs");
  }
  const auto refuse = [](const std::string& reason, const std::string& what) {
    throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, reason, "output.path: " + what,
                   {{"field", "output.path"}});
  };
  const bool exists = fs::exists(fs::symlink_status(output));
  if (exists && !spec.overwrite()) {
    refuse("OUTPUT_EXISTS",
           output + " exists; remove it, choose another path, or set output.overwrite");
  }
  if (exists && !is_model_of_dotresize(output)) {
    refuse("OUTPUT_FOREIGN", foreign_output_fault(output));
  }
  const fs::path partial = partial_path(output);
  if (!is_free_partial(partial)) {
    refuse("OUTPUT_FOREIGN", partial.string() +
                                 ", where the unfinished output would lie, is not empty, and no "
                                 "job of dotresize has made it");
  }
}

}  // namespace

NewJob admit(const v1::JobSpec& spec, const std::string& request_id, const AdmissionLimits& limits,
             const PathPolicy& paths) {
  check_request_id(request_id);
  if (spec.ByteSizeLong() > kMaxSpecBytes) {
    throw invalid_argument("spec", "is larger than " + std::to_string(kMaxSpecBytes) + " bytes");
  }
  std::vector<FieldViolation> violations = validate_spec(spec, /*require_absolute_paths=*/true);
  if (!violations.empty()) throw invalid_argument(std::move(violations));
  const v1::JobSpec resolved = paths.resolve(spec);
  std::string plan = check_against_model(resolved, limits.max_ranks);
  check_output(resolved.output().path(), resolved.output());
  return {spec, request_id, resolved.output().path(), claims_of(resolved), "", std::move(plan)};
}

v1::JobSpec readmit(const v1::JobSpec& spec, const std::string& output, const PathPolicy& paths) {
  v1::JobSpec resolved = paths.resolve(spec);
  if (resolved.output().path() != output) {
    throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "OUTPUT_MOVED",
                   "output.path: does not lead to " + output +
                       " any more, as it did when the job was accepted",
                   {{"field", "output.path"}});
  }
  return resolved;
}

}  // namespace dotresize
