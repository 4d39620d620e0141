// Calls of the Jobs service about sweeps.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "base/errors.h"
#include "server/api/jobs_service.h"
#include "server/api/sweep_admission.h"
#include "server/api/trace_context.h"
#include "server/api_error.h"
#include "server/log_format.h"
#include "server/schedule/sweep_directory.h"

namespace dotresize {
namespace {

constexpr std::chrono::seconds kPlanningWait(10);

void count_variants(v1::Sweep& sweep) {
  using Variant = v1::SweepResults::Variant;
  if (sweep.results().variants().empty()) {
    sweep.set_pending(sweep.job().sweep_size().jobs());
    sweep.set_refused(sweep.job().sweep_size().refused());
    return;
  }
  std::map<Variant::State, int> counts;
  for (const Variant& variant : sweep.results().variants()) ++counts[variant.state()];
  sweep.set_pending(counts[Variant::pending]);
  sweep.set_done(counts[Variant::done]);
  sweep.set_failed(counts[Variant::failed]);
  sweep.set_refused(counts[Variant::refused]);
}

/// Returns true if the results in the sweep's directory are this sweep's, not another one's.
bool is_of(const v1::SweepResults& results, const v1::Job& job) {
  const auto& axes = job.sweep().axes();
  const auto same = [](const std::string& key, const v1::SweepSpec::Axis& axis) {
    return key == axis.key();
  };
  return results.combinations() == job.sweep_size().combinations() &&
         std::equal(results.axes().begin(), results.axes().end(), axes.begin(), axes.end(), same);
}

}  // namespace

grpc::Status JobsService::CreateSweep(grpc::ServerContext* context,
                                      const v1::CreateSweepRequest* request, v1::Sweep* response) {
  return gate_.serve("CreateSweep", origin_of(*context), Role::kSubmit, "",
                     [&](const Caller& caller, std::string& id) {
                       *response = create_sweep(*request, caller, *context);
                       id = response->job().id();
                     });
}

v1::Sweep JobsService::create_sweep(const v1::CreateSweepRequest& request, const Caller& caller,
                                    const grpc::ServerContext& context) {
  if (!request.validate_only()) {
    // Looks for an earlier request first: that sweep may be running in the directory by now.
    auto earlier = store_.find_request(request.request_id(), request.spec(), caller.name,
                                       request.options(), request.sweep());
    if (earlier) {
      earlier->set_already_submitted(true);
      return describe_sweep(*earlier);
    }
  }
  if (request.options().priority() > 0) require_role(caller, Role::kAdmin);
  webhooks_.require(request.options());
  require_space();
  AdmittedSweep admitted;
  {
    // Planning thousands of jobs takes seconds: the lock limits it to one core.
    const std::unique_lock lock(planning_, kPlanningWait);
    if (!lock) {
      throw try_again(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_CALLS",
                      "the server is planning other sweeps");
    }
    admitted = admit_sweep(request, machine_, paths_);
  }
  if (context.IsCancelled()) {
    throw ApiError(grpc::StatusCode::CANCELLED, "CALLER_GONE", "nobody waits for the answer");
  }
  v1::Sweep sweep;
  *sweep.mutable_results() = std::move(admitted.results);
  v1::Job& job = *sweep.mutable_job();
  if (request.validate_only()) {
    *job.mutable_spec() = admitted.job.spec;
    *job.mutable_sweep() = *admitted.job.sweep;
    *job.mutable_sweep_size() = admitted.job.sweep_size;
    job.set_memory_bytes(admitted.job.memory);
    job.set_plan(admitted.job.plan);
  } else {
    admitted.job.owner = caller.name;
    admitted.job.traceparent = traceparent_of(context);
    job = store_.create(admitted.job);
    log_job(spdlog::level::info, job, "accepted, the sweep '" + job.spec().name() + "'");
  }
  count_variants(sweep);
  return sweep;
}

grpc::Status JobsService::GetSweep(grpc::ServerContext* context, const v1::GetSweepRequest* request,
                                   v1::Sweep* response) {
  return gate_.serve("GetSweep", origin_of(*context), Role::kRead, request->id(),
                     [&](const Caller&, std::string&) {
                       v1::Job job = get(request->id());
                       if (!job.has_sweep()) {
                         throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "NO_SWEEP",
                                        "job " + job.id() + " is not a sweep", {{"id", job.id()}});
                       }
                       *response = describe_sweep(std::move(job));
                     });
}

v1::Sweep JobsService::describe_sweep(v1::Job job) {
  v1::Sweep sweep;
  if (job.attempt() > 0) {  // before that, the directory may hold another sweep's results
    try {
      auto results = read_sweep_results(store_.output_of(job.id()));
      if (results && is_of(*results, job)) *sweep.mutable_results() = std::move(*results);
    } catch (const InputError& error) {
      throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "OUTPUT_FOREIGN",
                     "output.path: " + std::string(error.what()), {{"field", "output.path"}});
    }
  }
  *sweep.mutable_job() = std::move(job);
  count_variants(sweep);
  return sweep;
}

}  // namespace dotresize
