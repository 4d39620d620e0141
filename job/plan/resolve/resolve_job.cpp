#include "job/plan/resolve/resolve_job.h"

#include <algorithm>
#include <string>

#include "base/errors.h"
#include "dotresize/v1/job.pb.h"
#include "job/plan/resolve/job_resources.h"
#include "job/plan/resolve/output_target.h"
#include "job/plan/resolve/resolve_method.h"
#include "job/plan/resolve/token_sources.h"
#include "job/spec/validate_spec.h"

namespace dotresize {
namespace {

const Schedule& schedule_of(v1::Calibration::Activations activations, const ResolvedJob& job) {
  const auto offers_all = [&](const Schedule& schedule) { return offers(schedule, job); };
  if (activations == v1::Calibration::auto_) {
    const Schedule& usual = schedule_for_activations(job.method.pca() ? "original" : "compressed");
    return offers_all(usual) ? usual : *std::ranges::find_if(schedules(), offers_all);
  }
  const Schedule& asked = schedule_for_activations(v1::Calibration::Activations_Name(activations));
  if (!offers(asked, job)) {
    throw InputError("calibration.activations",
                     std::string(asked.activations) +
                         " does not go with shared maps, the metric fisher or kept "
                         "statistics");
  }
  return asked;
}

}  // namespace

bool offers(const Schedule& schedule, const ResolvedJob& job) {
  return (schedule.shares_maps || !job.stock_output()) &&
         (schedule.gradients || !job.gradients()) &&
         (schedule.keeps_statistics || !job.statistics.given());
}

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
  job.schedule = schedule_of(spec.calibration().activations(), job);
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
