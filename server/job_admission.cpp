#include "server/job_admission.h"

#include <algorithm>
#include <filesystem>

#include "base/errors.h"
#include "base/partial_path.h"
#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"
#include "job/spec/spec_paths.h"
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

void check_against_model(const v1::JobSpec& spec, int max_ranks) {
  const ModelConfig config =
      with_field("model.path", [&] { return read_model_config(spec.model().path()); });
  const ResolvedJob job = with_field("spec", [&] { return resolve_job(spec, config); });
  with_field("resources.ranks", [&] { return make_shard_plan(config, job); });
  if (job.ranks > max_ranks) {
    throw invalid_argument("resources.ranks", std::to_string(job.ranks) +
                                                  " is more than this server runs at once, " +
                                                  std::to_string(max_ranks) + " (--max-ranks)");
  }
}

/// The output's one name: two spellings of a path are one output.
std::string canonical_output(const std::string& path) {
  fs::path output(path);
  if (!output.has_filename()) output = output.parent_path();
  return (fs::weakly_canonical(output.parent_path()) / output.filename()).string();
}

void check_output(const std::string& output, const v1::Output& spec, const fs::path& state_dir) {
  const fs::path name = fs::path(output).filename();
  if (name.empty() || name == "." || name == "..") {
    throw invalid_argument("output.path", "must end with the name of the directory to make");
  }
  if (is_unfinished_output(output)) {
    throw invalid_argument("output.path",
                           "names in .partial and .replaced are kept for unfinished outputs");
  }
  const fs::path state = fs::weakly_canonical(state_dir);
  if (is_within(output, state) || is_within(state, output)) {
    throw invalid_argument("output.path", "collides with the server's state directory");
  }
  if (!spec.overwrite() && fs::exists(fs::symlink_status(output))) {
    throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "OUTPUT_EXISTS",
                   "output.path: " + output +
                       " exists; remove it, choose another path, or set output.overwrite",
                   {{"field", "output.path"}});
  }
}

}  // namespace

NewJob admit(const v1::JobSpec& spec, const std::string& request_id,
             const AdmissionLimits& limits) {
  check_request_id(request_id);
  if (spec.ByteSizeLong() > kMaxSpecBytes) {
    throw invalid_argument("spec", "is larger than " + std::to_string(kMaxSpecBytes) + " bytes");
  }
  std::vector<FieldViolation> violations = validate_spec(spec, /*require_absolute_paths=*/true);
  if (!violations.empty()) throw invalid_argument(std::move(violations));
  check_against_model(spec, limits.max_ranks);
  const std::string output = canonical_output(spec.output().path());
  check_output(output, spec.output(), limits.state_dir);
  return {spec, request_id, output};
}

}  // namespace dotresize
