#include "job/plan/resolve/resolve_job.h"

#include <optional>
#include <string_view>

#include "base/errors.h"
#include "dotresize/v1/job.pb.h"
#include "job/plan/resolve/job_resources.h"
#include "job/plan/resolve/output_target.h"
#include "job/plan/resolve/resolve_method.h"
#include "job/plan/resolve/token_sources.h"
#include "job/spec/validate_spec.h"

namespace dotresize {

ResolvedJob resolve_job(const v1::JobSpec& spec, const ModelConfig& config,
                        const std::optional<LaunchFacts>& launch, const Confinement& confinement) {
  if (config.compressed) {
    throw InputError("model.path",
                     "the model is already compressed (model_type dotresize); a dense one is "
                     "needed");
  }
  ResolvedJob job;
  job.name = name_of(spec);
  job.model.path = spec.model().path();
  job.model.name = spec.model().origin().empty() ? spec.model().path() : spec.model().origin();
  job.output = output_target(spec.output(), config);
  resolve_method(spec, config, job);
  job.statistics = {spec.calibration().statistics().save(), spec.calibration().statistics().use()};
  const v1::Calibration::Activations activations = spec.calibration().activations();
  const auto asked = activations == v1::Calibration::auto_
                         ? std::optional<std::string_view>()
                         : v1::Calibration::Activations_Name(activations);
  job.schedule =
      choose_schedule(asked, job.method.pca() ? "original" : "compressed", job.schedule_needs());
  job.resources = job_resources(spec, config, launch);
  job.calibration = calibration_source(spec.calibration(), config, confinement);
  check_seqlen("calibration", spec.calibration().has_seqlen(), job.calibration, config);
  if (spec.has_evaluation()) {
    job.evaluation = evaluation_source(spec.evaluation(), job.calibration, confinement);
    check_seqlen("evaluation", /*given=*/true, *job.evaluation, config);
  }
  if (spec.has_heal()) {
    Healing& healing = job.healing.emplace();
    if (spec.heal().has_samples()) healing.samples = spec.heal().samples();
    if (spec.heal().has_epochs()) healing.epochs = spec.heal().epochs();
    if (spec.heal().has_learning_rate()) healing.learning_rate = spec.heal().learning_rate();
  }
  check_output_is_apart(job);
  return job;
}

}  // namespace dotresize
