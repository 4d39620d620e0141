#include "job/plan/plan_job.h"

#include <algorithm>
#include <string>

#include "base/errors.h"
#include "base/text/human_text.h"
#include "job/plan/resolve/resolve_job.h"

namespace dotresize {
namespace {

/// Maximum number of junction groups that a job accepts if another schedule has room. More groups
/// cost more passes over the tokens than a schedule without groups loses.
constexpr int64_t kMaxGroups = 4;

/// Throws InputError with the plan's needs. `plan`: the plan that exceeds the budgets least.
/// `given`: what the spec says; what it leaves open is what the machine has.
[[noreturn]] void refuse_budgets(const JobPlan& plan, const v1::Resources& given) {
  const JobResources& resources = plan.job.resources;
  const int64_t memory = peak_memory(plan.shards);
  const int64_t device_memory = peak_device_memory(plan.shards);
  const bool host = !within_budget(memory, resources.memory);
  const bool device = !within_budget(device_memory, resources.device_memory);
  std::string needs;
  if (host) needs = human_bytes_rounded_up(memory) + (device ? " of memory and " : "");
  if (device) needs += human_bytes_rounded_up(device_memory) + (host ? " of GPU memory" : "");
  const bool asked = host ? given.has_memory() : given.has_device_memory();
  throw InputError(host ? "resources.memory" : "resources.device_memory",
                   human_bytes(host ? *resources.memory : *resources.device_memory) + " of " +
                       (host ? "memory" : "GPU memory") + " a rank" +
                       (asked ? "" : ", which is what the machine has,") +
                       " is too little: this job needs at least " + needs + " with " +
                       std::to_string(resources.ranks) +
                       (resources.ranks == 1 ? " rank" : " ranks"));
}

}  // namespace

JobPlan plan_job(const v1::JobSpec& spec, const ModelConfig& config,
                 const std::optional<LaunchFacts>& launch, const Confinement& confinement) {
  ResolvedJob job = resolve_job(spec, config, launch, confinement);
  const auto can_replace = [&](const Schedule& schedule) {
    return schedule.activations == job.schedule.activations &&
           schedule.offers(job.schedule_needs());
  };
  const auto interrupted = std::ranges::find_if(schedules(), [&](const Schedule& schedule) {
    return launch && schedule.name == launch->schedule && can_replace(schedule);
  });
  const bool goes_on = interrupted != schedules().end();
  if (goes_on) job.schedule = *interrupted;
  JobPlan plan = make_job_plan(config, job);
  const bool fits_as_it_is = fits(plan.shards, plan.job);
  const bool limited = job.resources.memory || job.resources.device_memory;
  if (!limited || (fits_as_it_is && plan.shards.junction_groups <= kMaxGroups)) return plan;

  const auto other_schedule = std::ranges::find_if(schedules(), [&](const Schedule& schedule) {
    return !goes_on && schedule.name != job.schedule.name && can_replace(schedule);
  });
  if (other_schedule == schedules().end()) {
    if (!fits_as_it_is) refuse_budgets(plan, spec.resources());
    return plan;
  }
  job.schedule = *other_schedule;
  JobPlan other = make_job_plan(config, job);
  if (fits(other.shards, other.job)) return other;
  if (fits_as_it_is) return plan;
  // Name the needs of the plan that exceeds a budget by the smaller factor.
  const auto excess = [&](const JobPlan& tried) {
    const auto times = [](int64_t needed, const std::optional<int64_t>& budget) {
      return budget ? static_cast<double>(needed) / static_cast<double>(*budget) : 0.0;
    };
    return std::max(times(peak_memory(tried.shards), job.resources.memory),
                    times(peak_device_memory(tried.shards), job.resources.device_memory));
  };
  refuse_budgets(excess(other) < excess(plan) ? other : plan, spec.resources());
}

}  // namespace dotresize
