// Calls of the Jobs service about sweeps.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/errors.h"
#include "job/spec/validate_spec.h"
#include "server/admission/job_admission.h"
#include "server/api/jobs_service.h"
#include "server/common/api_error.h"
#include "server/common/log_format.h"
#include "server/store/job_output.h"

namespace dotresize {
namespace {

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

}  // namespace

grpc::Status JobsService::CreateSweep(grpc::ServerContext* context,
                                      const v1::CreateSweepRequest* request, v1::Sweep* response) {
  Permit permit(parts_.gate, "CreateSweep", origin_of(*context), Role::kSubmit, "");
  const auto create = [&](const Caller& caller, std::string& id) {
    v1::CreateSweepRequest named = *request;
    named.mutable_spec()->set_name(name_of(request->spec()));
    // An earlier request is looked for first: its sweep may be running in the directory by now.
    auto earlier = request->validate_only()
                       ? std::nullopt
                       : parts_.store.find_request(named.request_id(), named.spec(), caller.name,
                                                   request->options(), request->sweep());
    if (earlier) {
      earlier->set_already_submitted(true);
      id = earlier->id();
      *response = describe_sweep(*std::move(earlier));
      return;
    }
    if (request->options().priority() > 0) require_role(caller, Role::kAdmin);
    parts_.webhooks.require(request->options());
    require_space();
    AdmittedSweep admitted = admit_sweep(named, {parts_.machine, parts_.paths, parts_.models});
    if (is_cancelled(*context)) {
      throw ApiError(grpc::StatusCode::CANCELLED, "CALLER_GONE", "the caller is gone");
    }
    permit.check();
    require_ownership(admitted.job.claims, rights_of(parts_.gate.access(), caller.name));
    *response->mutable_results() = std::move(admitted.results);
    v1::Job& job = *response->mutable_job();
    if (request->validate_only()) {
      *job.mutable_spec() = admitted.job.spec;
      *job.mutable_sweep() = *admitted.job.sweep;
      *job.mutable_sweep_size() = admitted.job.sweep_size;
      job.set_memory_bytes(admitted.job.memory);
      job.set_plan(admitted.job.plan);
    } else {
      admitted.job.owner = caller.name;
      admitted.job.traceparent = traceparent_of(*context);
      job = parts_.store.create(admitted.job);
      id = job.id();
      log_job(spdlog::level::info, job, "accepted, the sweep '" + job.spec().name() + "'");
    }
    count_variants(*response);
  };
  return parts_.gate.serve("CreateSweep", permit.origin(), Role::kSubmit, "", create);
}

grpc::Status JobsService::GetSweep(grpc::ServerContext* context, const v1::GetSweepRequest* request,
                                   v1::Sweep* response) {
  return parts_.gate.serve("GetSweep", origin_of(*context), Role::kRead, request->id(),
                           [&](const Caller&, const std::string& id) {
                             v1::Job job = stored(id);
                             describe(job);
                             if (!job.has_sweep()) {
                               throw ApiError(grpc::StatusCode::FAILED_PRECONDITION, "NO_SWEEP",
                                              "job " + job.id() + " is not a sweep",
                                              {{"id", job.id()}});
                             }
                             *response = describe_sweep(std::move(job));
                           });
}

v1::Sweep JobsService::describe_sweep(v1::Job job) {
  v1::Sweep sweep;
  if (job.attempt() > 0) {  // before that, the directory may hold another sweep's results
    try {
      auto results = read_sweep_results(parts_.store.output_of(job.id()));
      // Results of another sweep that has run there meanwhile are left out.
      const auto& axes = job.sweep().axes();
      const auto same = [](const std::string& key, const v1::SweepSpec::Axis& axis) {
        return key == axis.key();
      };
      if (results && results->combinations() == job.sweep_size().combinations() &&
          std::equal(results->axes().begin(), results->axes().end(), axes.begin(), axes.end(),
                     same)) {
        *sweep.mutable_results() = std::move(*results);
      }
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
