#include "job/model/model_size.h"
#include "job/plan/estimate/job_time.h"
#include "job/plan/net_size.h"
#include "job/plan/steps/step.h"

namespace dotresize {
namespace {

int64_t hashed_bytes(const ModelConfig& model) {
  return stored_bytes(model) + model.copied_bytes();
}

/// Hashes the files of a model, shared by the ranks.
PhaseTimes hash_time(const JobTime& t, const ModelConfig& model) {
  PhaseTimes times;
  times.add("hash", number(hashed_bytes(model)) / t.ranks / t.rates.hash);
  return times;
}

ModelConfig output_of(const JobParts& parts) {
  return output_model_config(parts.config, parts.job, parts.job.widths);
}

}  // namespace

constinit const Step kSourceHashStep = {
    .phase = kFinish,
    .beside = kCalibrate,
    .traffic = [](const JobParts& parts,
                  Traffic& traffic) { traffic.read_bytes += hashed_bytes(parts.config); },
    .time = [](const JobTime& t) { return hash_time(t, t.config); }};

constinit const Step kOutputHashStep = {
    .phase = kFinish,
    .beside = kEvaluateCompressed,
    .traffic = [](const JobParts& parts,
                  Traffic& traffic) { traffic.read_bytes += hashed_bytes(output_of(parts)); },
    .time = [](const JobTime& t) { return hash_time(t, output_of(t)); }};

}  // namespace dotresize
