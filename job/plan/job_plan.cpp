#include "job/plan/job_plan.h"

#include <utility>

#include "job/plan/shards/shard_plan.h"

namespace dotresize {

JobPlan make_job_plan(const ModelConfig& config, ResolvedJob job) {
  JobPlan plan;
  plan.model = config;
  plan.shards = make_shard_plan(config, job);
  plan.output = output_model_config(config, job, job.widths);
  plan.size = net_size(config, plan.output);
  plan.traffic = estimate_traffic(config, job, plan.shards);
  plan.served = served_sizes(config, job, plan.output);
  plan.job = std::move(job);
  return plan;
}

}  // namespace dotresize
