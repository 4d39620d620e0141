#include "job/plan/steps/step.h"

#include <array>

#include "job/model/model_size.h"

namespace dotresize {

std::span<const Step* const> steps() {
  static constexpr std::array kSteps = {
      &kCheckStep,      &kDenseEvaluationStep, &kCutStep,       &kMapsStep,  &kPipelineStep,
      &kLayerwiseStep,  &kTokenParallelStep,   &kFoldStep,      &kTrialStep, &kHealStep,
      &kEvaluationStep, &kSourceHashStep,      &kOutputHashStep};
  return kSteps;
}

int64_t sent_weights(const JobParts& parts) {
  return (parts.job.resources.ranks - 1) * stored_parameters(parts.config) *
         size_in_bytes(parts.job.resources.compute_dtype);
}

}  // namespace dotresize
