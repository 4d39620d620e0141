#include <algorithm>

#include "job/plan/steps/maps.h"

namespace dotresize {
namespace {

int64_t layerwise_memory(const RankSizes& r) {
  const JunctionSizes s(r);
  const int64_t sublayers = r.on_gpu ? 2 : 1;
  const int64_t forward = s.described_beside() + sublayers * r.dense_sublayer * r.compute_bytes +
                          r.microbatch_stream + r.insides();
  // Each junction that waits has its stream. The one that the rank owns has its sums.
  const int64_t together = r.shard.solved_together;
  const int64_t streams = s.second_pass ? together : 1;
  const int64_t sums = together > 1 ? s.first_sums + (s.second_pass ? r.square : 0) : 0;
  return streams * r.share_stream + sums + std::max(s.one_at_a_time(), forward);
}

PhaseTimes layerwise_time(const JobTime& t) {
  const Dtype compute = t.job.resources.compute_dtype;
  PhaseTimes work;
  TensorsSize read;
  for (int64_t junction = 0; junction < t.mapped; ++junction) {
    work.add(shared_junction_time(t));
    if (junction + 1 == t.mapped) break;
    const TensorsSize sublayer = t.dense_sublayer_size(junction);
    read = read + sublayer;
    work.add("forward", t.forward(t.config, junction, t.share_of_tokens));
    work.add("communicate", t.collective(number(sublayer.parameters * size_in_bytes(compute))));
  }
  return t.read_in_turns(work, read, compute, t.config);
}

}  // namespace

constinit const Step kLayerwiseStep = {
    .phase = kCalibrate,
    .after_cut = true,
    .runs = [](const ResolvedJob& job) { return sums_in(job, "layerwise"); },
    .memory = layerwise_memory,
    .traffic = add_sharers_traffic,
    .time = layerwise_time,
    .tokens = sharers_tokens};

}  // namespace dotresize
